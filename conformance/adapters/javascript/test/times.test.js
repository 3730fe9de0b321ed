/** Times of the CF conventions, as the page with a map shows them. */

import assert from "node:assert/strict";
import { test } from "node:test";

import { describeTime } from "../examples/map/times.js";

for (const [value, units, calendar, text] of [
  [0, "hours since 1970-01-01 00:00:00", "gregorian", "1970-01-01 00:00"],
  [36.5, "hours since 1970-01-01", undefined, "1970-01-02 12:30"],
  [-1, "day since 2000-03-01 06:00", "standard", "2000-02-29 06:00"],
  [90, "seconds since 1999-12-31T23:59:00Z", "proleptic_gregorian", "2000-01-01 00:00"],
  [60, "minutes since 2000-1-1 00:00:00.0 UTC", "standard", "2000-01-01 01:00"],
  [59, "days since 2000-01-01", "360_day", "2000-02-30 00:00, in years of 360 days"],
  [-1, "hours since 2000-01-01", "360_day", "1999-12-30 23:00, in years of 360 days"],
  [1, "days since 2000-01-01", "noleap", "1 days since 2000-01-01 (calendar noleap)"],
  [1, "months since 2000-01-01", "standard", "1 months since 2000-01-01 (calendar standard)"],
  [1, "days since 2000-01-01 00:00 +01:00", "standard", "1 days since 2000-01-01 00:00 +01:00 (calendar standard)"],
]) {
  test(`${value} ${units}, ${calendar}`, () => {
    assert.equal(describeTime(value, { units, calendar }), text);
  });
}
