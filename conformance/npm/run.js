#!/usr/bin/env node
/** Runs the suite with the Python that is installed: its runner needs the standard library only. */

import { spawnSync } from "node:child_process";
import { fileURLToPath } from "node:url";

const SUITE = fileURLToPath(new URL(".", import.meta.url));
const COMMANDS = [["python3.14"], ["python3.13"], ["python3.12"], ["python3"], ["python"], ["py", "-3"]];
const IS_NEW_ENOUGH = "import sys; sys.exit(sys.version_info < (3, 12))";

const found = COMMANDS.find(([program, ...options]) => {
  const { status } = spawnSync(program, [...options, "-c", IS_NEW_ENOUGH], { stdio: "ignore" });
  return status === 0;
});
if (found === undefined) {
  console.error("error: the conformance runner needs Python 3.12 or later, and found none");
  process.exit(2);
}
const [program, ...options] = found;
const { status } = spawnSync(program, [...options, SUITE, ...process.argv.slice(2)], { stdio: "inherit" });
process.exit(status ?? 1);
