"""MongoDB's specification tests, run by the runner that comes with PyMongo's source, unmodified and with its default options.

The arguments are the server's URI, the folder of the runner and the name of a suite. What cannot pass is in
specifications_failing.json with the reason: `fails` are run, and must fail; `not run` would only wait. What the runner skips by the
tests' own requirements is counted.
"""

import importlib
import json
import os
import sys
import types
import unittest
from collections import Counter
from fnmatch import fnmatchcase
from pathlib import Path
from urllib.parse import urlsplit

# By suite: its folders of data, some with the class of one file after a colon, or PyMongo's own classes for the parts that the
# specification has in words, by module and name; what passes, and what the runner skips: tests for a sharded cluster, for older
# servers, or for other drivers. Those "with a login" are of what is sent again when the login itself met a lost connection.
SUITES = {
    "transactions": (["transactions/unified"], 159, 83),
    "convenient": (["transactions-convenient-api/unified"], 29, 0),
    "sessions": (["sessions"], 28, 6),
    "causal consistency": (["test_session.TestCausalConsistency"], 8, 2),
    "causal consistency alone": (["test_session.TestCausalConsistency"], 3, 7),
    "sessions of PyMongo": (["test_session.TestSession", "test_session.TestClusterTime"], 28, 0),
    "versioned": (["versioned-api"], 40, 1),
    "crud": (["crud/unified"], 353, 133),
    "crud alone": (["crud/unified"], 345, 141),
    "versioned alone": (["versioned-api"], 38, 3),
    "change streams": (["change_streams/unified"], 65, 24),
    "change streams alone": (["change_streams/unified"], 1, 88),
    "retryable writes": (["retryable_writes/unified"], 116, 26),
    "retryable writes with a login": (["retryable_writes/unified:TestUnifiedHandshakeError"], 20, 0),
    "retryable reads": (["retryable_reads/unified"], 277, 66),
    "retryable reads with a login": (["retryable_reads/unified:TestUnifiedHandshakeError"], 30, 2),
}

uri, folder, suite = sys.argv[1:4]
address = urlsplit(uri)
# Where the runner looks for its server.
os.environ["DB_IP"], os.environ["DB_PORT"] = address.hostname, str(address.port)
if address.username:
    os.environ["DB_USER"], os.environ["DB_PASSWORD"] = address.username, address.password
# The package `test` of the source, and not the one of Python.
sys.path.insert(0, str(Path(folder).parent))


class Marks:
    """The marks of pytest, by which the runner only names groups of tests."""

    def __getattr__(self, name):
        return lambda marked: marked


sys.modules["pytest"] = types.SimpleNamespace(mark=Marks())
from test.unified_format import generate_test_classes  # noqa: E402


class Passed(unittest.TextTestResult):
    """The result of a run, with the tests that passed."""

    def __init__(self, *arguments):
        super().__init__(*arguments)
        self.passed = []

    def addSuccess(self, test):
        super().addSuccess(test)
        self.passed.append(test)


def name_of(test):
    """The name as the table has it: the file's class, and the test."""
    return f"{type(test).__name__}.{test._testMethodName}" if isinstance(test, unittest.TestCase) else str(test)


def classes(folder, path):
    module, _, name = path.partition(".")
    if name:
        return [getattr(importlib.import_module(f"test.{module}"), name)]
    path, _, name = path.partition(":")
    made = generate_test_classes(str(Path(folder) / path))
    return [made[name]] if name else made.values()


def main():
    table = json.loads((Path(__file__).parent / "specifications_failing.json").read_text())
    fails, not_run = table["fails"], table["not run"]
    folders, passing, skipping = SUITES[suite]

    def reason(of, name):
        found = [reason for reason, patterns in of.items() for one in patterns if fnmatchcase(f"{suite}: {name}", one)]
        return found[0] if found else None

    tests, left_out = unittest.TestSuite(), Counter()
    for path in folders:
        for made in classes(folder, path):
            for test in unittest.defaultTestLoader.loadTestsFromTestCase(made):
                if why := reason(not_run, name_of(test)):
                    left_out[why] += 1
                else:
                    tests.addTest(test)
    with open(os.devnull, "w") as nowhere:
        result = unittest.TextTestRunner(stream=nowhere, resultclass=Passed).run(tests)
    failed, unexpected = Counter(), []
    for test, trace in result.failures + result.errors:
        if why := reason(fails, name_of(test)):
            failed[why] += 1
        else:
            unexpected.append(f"{name_of(test)}: {trace.strip().splitlines()[-1][:500]}")
    better = [name_of(test) for test in result.passed if reason(fails, name_of(test))]
    counts = (len(result.passed), len(result.skipped))
    print(f"{suite}: {counts[0]} passed, {counts[1]} skipped, {failed.total()} failed, {left_out.total()} not run")
    print(dict(failed), dict(left_out))
    assert not unexpected, "\n".join(unexpected)
    assert not better, f"listed as failing, and passed: {better}"
    assert counts == (passing, skipping), f"{counts} instead of {(passing, skipping)}"
    print("passed")


main()
