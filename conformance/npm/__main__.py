"""`python DIRECTORY [options] -- COMMAND …`: the runner, where this archive was unpacked."""

import runpy

runpy.run_module("conformance.runner", run_name="__main__", alter_sys=True)
