/** Times of the CF conventions, as text. */

const MINUTES = { second: 1 / 60, minute: 1, hour: 60, day: 1440 };
const UNITS = /^(second|minute|hour|day)s? since (\d+)-(\d+)-(\d+)(?:[ T](\d+):(\d+)(?::(\d+)(?:\.0*)?)?)?(?: ?UTC|Z)?$/;
const REAL_CALENDARS = ["standard", "gregorian", "proleptic_gregorian"];

/**
 * @param {number} value
 * @param {Record<string, any>} attributes `units`, such as `hours since 1970-01-01`, and `calendar`
 */
export function describeTime(value, { units, calendar = "standard" }) {
  const [, unit, ...since] = UNITS.exec(units) ?? [];
  if (unit !== undefined) {
    const start = since.map((text) => Number(text ?? 0));
    const minutes = value * MINUTES[unit];
    if (REAL_CALENDARS.includes(calendar)) return realTime(start, minutes);
    if (calendar === "360_day") return `${monthsOf30Days(start, minutes)}, in years of 360 days`;
  }
  return `${value} ${units} (calendar ${calendar})`;
}

function realTime([year, month, ...rest], minutes) {
  const time = new Date(Date.UTC(year, month - 1, ...rest) + 60_000 * minutes).toISOString();
  return `${time.slice(0, 10)} ${time.slice(11, 16)}`;
}

function monthsOf30Days([year, month, day, hour, minute, second], minutes) {
  const days = (year * 12 + month - 1) * 30 + day - 1;
  const total = Math.floor(days * 1440 + hour * 60 + minute + second / 60 + minutes);
  const parts = [
    Math.floor(total / 518_400), (Math.floor(total / 43_200) % 12) + 1, (Math.floor(total / 1440) % 30) + 1,
  ];
  const [hours, rest] = [Math.floor(total / 60) % 24, total % 60];
  return `${parts.map(twoDigits).join("-")} ${twoDigits(hours)}:${twoDigits(rest)}`;
}

function twoDigits(number) {
  return String(number).padStart(2, "0");
}
