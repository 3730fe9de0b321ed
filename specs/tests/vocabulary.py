"""Values that members of declarations and manifest documents have, and must not have.

Lists, from which `documents` draws and which `faults` goes through.
"""

from __future__ import annotations

from typing import Any

LARGEST = 2**53 - 1


def words(text: str) -> list[str]:
    """Texts without spaces, so that long lists of them stay readable."""
    return text.split()


ODD_VALUES: list[Any] = [
    *(None, True, False, 0, 1, -1, LARGEST, LARGEST + 1, 2**64, 1.0, 1.5, -0.0, "", "x", "1", "\n"),
    *([], [1], [1, 2], [0], [True], ["gzip"], [["gzip"]], {}, {"name": "gzip"}, {"0.0": {}}),
]

# ---------------------------------------------------------------- references

NAMES = words("f.nc g%20h.nc é.bin a+b ~x c")
ROOTS = ["", *words("./ ../ d/ /data/ s3://b/ GS://b/x/ https://h/ file:///d/ abfs://c@a/")]
ODD_ROOTS = words(
    "file://h/ file: file:/ file://// file://LOCALHOST/ file:d/ //h/ ftp://h/ s3: s3:/b/ S3:// "
    "s3://b// s3://b?x/ az://u@c/ abfs://a/ abfs://c@a@b/ http://u:p@h/ https://h:99999/ "
    "https://[::1]/ https://h:65535/ https://h:65536/ https://h:/ https://h:080/ https://a_b.c-d/ "
    "https://-h/ https://h%41/ https://hé/ https://1.2.3.4/ https://1.2.3.4:80/ https://01.2.3.4/ "
    "https://256.0.0.1/ https://127.1/ https://0X7f.1/ https://a.0x/ https://127.0.0.1./ "
    "https://[1.2.3.4]/ https://[1::2::3]/ https://[::ffff:1.2.3.4]/ https://[fe80::1%25e]/ "
    "https://[]/ https://a.b./ s3://.b/ s3://B_$-.x/ s3://$b/ s3://b:80/ s3://bü/ "
    "s3://b%41/ abfs://c@-a/ abfs://-c@a/ abfs://@a/ memory://m?x/ x: 1a: wrf_d01_00: /."
)
# Of which references are put together that parsers disagree about.
PIECES = [
    *words("/ // . .. ./ ../ a b.nc é 😀 ~ + : @ %20 %25 %c3%a9 %c3 %ED%A0%80 %f0%9f%98%80 %C0%80"),
    *words("%f5%80%80%80 %F4%90%80%80 %e0%80%80 %F0%80%80%80 %e2%82 %ef%bf%bf %f4%8F%bf%bf %80"),
    *words(
        "%2e %2E %2f %5C %00 %7f %c2%85 %C2%A0 % %4 %zz %4z %0 \\ # ? ?x=1 ?x=%2F ?x=%00 ?x=% {"
    ),
    *words("c%61 %2e/ %2E%2e/ .%2e/ %2e./ /%2e %2e? s3:// S3: s3://b s3://b/ gs://b/ https://h"),
    *words("https://h/ http://h:80/ abfs://c@a/ az://u@c/ file: file:/// file://localhost/"),
    *words("file://h/ /d/ memory://m/ ftp://h/ x: 1a: [::1] u:p@ /. /.. /./ ?/ ?/.. a//../b"),
    *(" ", "\t", "\n", "\x7f", "\x85", "\u2028", "\ud800", "{partition}"),
]
BASES = [*ROOTS, "..", ".", "s3://b", "https://h/x?y", "https://h/d/", "s3://b/d/e/"]

TEMPLATES = ["./{partition}.json", "m/{partition}", "{partition}", "s3://b/{partition}.json.gz"]
BY_DIGEST = ["./manifest-{digest}.json", "{digest}", "s3://b/{digest}/m.json", "{digest}/../m.json"]
ODD_BY_DIGEST = words(
    "https://h/{digest}?x=1 https://h/m?p={digest} {digest}/{digest}.json {Digest} ./m-{digest "
    "s3://{digest}/m.json ./m%4{digest}.json //{digest}/m x{digest}:y 1{digest}:y {digest}/ "
    "{{digest}} {digest}{partition} %7Bdigest%7D.json"
)
ODD_TEMPLATES = words(
    "https://h/{partition}?x=1 https://h/m?p={partition} {partition}/{partition}.json "
    "{Partition} s3://{partition}/m.json ./m%4{partition}.json {partition}/../m.json "
    "//{partition}/m x{partition}:y 1{partition}:y file:{partition} {partition}/ partition"
)

# ---------------------------------------------------------------- members

CHECKSUMS = [
    *("crc32c:e3069283", "crc32:cbf43926", f"md5:{'0' * 32}", f"sha256:{'a' * 64}"),
    f"sha512:{'f' * 128}",
]
ODD_CHECKSUMS = [
    *words("crc32c:E3069283 crc32c:e306928 crc32c:e30692833 crc32c :e3069283 md5: CRC32C:e3069283"),
    *("adler32:e3069283", "", "crc32c: e306928", "crc32c:e3069283\n", " crc32c:e3069283"),
]
TIMES = [
    *("2024-01-31T12:00:00Z", "2024-02-29t23:59:59.123456789z", "1970-01-01T00:00:00+00:00"),
    "2024-12-31T23:59:59-23:59",
]
ODD_TIMES = [
    *words("2024-02-30T12:00:00Z 2023-02-29T12:00:00Z 2016-12-31T23:59:60Z 2024-01-31 now"),
    *words("2024-01-31T12:00:00 2024-13-01T00:00:00Z 20240131T120000Z 2024-01-31T24:00:00Z"),
    *words("2024-01-31T12:00Z 2024-01-31T12:00:00+0100 0000-01-01T00:00:00Z 2024-W05-3T12:00:00Z"),
    *words("0001-01-01T00:00:00+12:00 2024-01-31T12:00:00+24:00 2024-01-31T12:00:00,5Z"),
    *words("2024-01-31T12:00:00+12:60 2024-01-31T23:59:60+00:00 2024-01-31T12:00:61Z"),
    *("", "2024-01-31 12:00:00Z", "2024-01-31T12:00:00Z\n", " 2024-01-31T12:00:00Z"),
]
DATA = ["AQ==", "AQI=", "AAECAwQF", "+/+/", "AQJ="]
ODD_DATA = ["", "A", "AQ", "AQ=", "AQI=\n", "A Q=", "-_-_", "====", "AQ==AQ==", "AQI=AQI=", "É==="]
TEXTS = ['"abc"', 'W/"abc"', "", "v1", "é"]
NUMBERS = [0, 1, 7, 4096, LARGEST - 4096, LARGEST - 1]

KEYS = [
    *words("0 c c/0 c.0 0/0 c.0.0 c/0.0 c.0/0 0.0.0 c/1/2/3 00.0 0.01 -1.0 0. .0 +1.0 1e0.0 C/0/0"),
    *("", "0. 0", "0.0\n", "0.0 ", "\u0660.0", "8.0", "0.8", "100.100", "c/9/9", "c/", "/0/0"),
    *(f"{LARGEST}.0", f"{LARGEST + 1}.0", f"{'9' * 17}.0", "0.0", "c/0/0", "7.7"),
]

CODECS = ["gzip", "zstd", "crc32c", {"name": "gzip", "configuration": {}, "must_understand": False}]
ODD_CODECS = [
    *("blosc", {"configuration": {}}, {"name": "gzip", "x:note": 1}),
    *({"name": "blosc", "must_understand": False}, {"name": "gzip", "must_understand": "no"}),
    *({"name": value} for value in ODD_VALUES),
    *({"name": "gzip", "configuration": value} for value in ODD_VALUES),
    *ODD_VALUES,
]
DOCUMENT_CHECKSUM = f"sha256:{'0123456789abcdef' * 4}"
ODD_DOCUMENT_CHECKSUMS = [
    *("sha256", "sha256:", "sha256:0", DOCUMENT_CHECKSUM.upper(), DOCUMENT_CHECKSUM[:-1]),
    *(f"{DOCUMENT_CHECKSUM}0", f"{DOCUMENT_CHECKSUM}\n", f" {DOCUMENT_CHECKSUM}", "sha256:" * 8),
    *(DOCUMENT_CHECKSUM.replace("sha256", name) for name in ("", "md5", "SHA256", "sha512")),
    *CHECKSUMS,
]
PARTITIONS = [
    *("all", [], ["0.0"], ["0.0", "3.1"], ["9.9"], {}),
    *({"0.0": DOCUMENT_CHECKSUM}, {"3.1": DOCUMENT_CHECKSUM, "9.9": DOCUMENT_CHECKSUM}),
]
ODD_PARTITIONS = [
    *("ALL", "0.0", ["all"], ["0"], ["0.0.0"], ["00.0"], ["0/0"], ["0.0", "0.0"], ["0.0\n"], [""]),
    *([f"{LARGEST}.0"], [f"{LARGEST + 1}.0"], [f"{'9' * 17}.0"], ["c/0/0"], ["-1.0"], ["0.0", 1]),
    *({name: DOCUMENT_CHECKSUM} for name in words("0 0.0.0 00.0 c/0/0 -1.0 0/0")),
    *({name: DOCUMENT_CHECKSUM} for name in ("", "0.0\n", f"{LARGEST}.0", f"{LARGEST + 1}.0")),
    *({"0.0": value} for value in [*ODD_DOCUMENT_CHECKSUMS, *ODD_VALUES]),
]
SHAPES = [[2, 4], [8, 8], [LARGEST, 1]]
ODD_SHAPES = [*([2, value] for value in ODD_VALUES), [2], [2, 2, 2], *ODD_VALUES]
