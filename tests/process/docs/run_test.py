"""What run.py makes of pages that are right and of pages that are wrong: run_test.py BUILD."""
import pathlib
import subprocess
import sys
import tempfile
import unittest

HERE = pathlib.Path(__file__).resolve().parent
BUILD = sys.argv[1]
FENCE = "```"


def block(language, text, *comments):
    return "".join(f"<!-- {comment} -->\n" for comment in comments) + f"{FENCE}{language}\n{text}\n{FENCE}\n\n"


def run(*blocks, server="none"):
    """Runs a page of these blocks; returns the exit status and what was printed."""
    with tempfile.TemporaryDirectory() as folder:
        text = "# Page\n\n" + (f"<!-- server: {server} -->\n\n" if server else "") + "".join(blocks)
        (pathlib.Path(folder) / "page.md").write_text(text)
        ended = subprocess.run([sys.executable, HERE / "run.py", "--build", BUILD, folder], capture_output=True, text=True)
    return ended.returncode, ended.stdout + ended.stderr


class Runner(unittest.TestCase):
    def passes(self, *blocks, **how):
        code, printed = run(*blocks, **how)
        self.assertEqual(code, 0, printed)
        return printed

    def fails(self, said, *blocks, **how):
        code, printed = run(*blocks, **how)
        self.assertEqual(code, 1, printed)
        self.assertRegex(printed, said)

    def test_commands_are_run(self):
        self.assertIn("1 pages: 1 blocks run", self.passes(block("sh", "holdfast --version | grep -q holdfast")))
        self.fails(r"page.md:5: the block failed with exit status 1", block("sh", "false"))
        self.fails("exit status 1", block("sh", "false\ntrue"))
        self.fails("exit status 1", block("sh", "false | cat"))
        self.fails("exit status 127", block("sh", "holdfsat status"))

    def test_a_failure_says_what_to_do(self):
        self.fails(r"<!-- not run: REASON -->", block("sh", "false"))
        self.fails(r"Commands of the pages", block("", "holdfast status"))

    def test_every_block_has_a_language(self):
        self.fails("has no language", block("", "holdfast status"))
        self.fails("has the language `perl`", block("perl", "1"))
        self.fails("but has commands", block("text", "curl http://127.0.0.1:8080/"))
        self.fails("but has commands", block("text", "$ ls"))
        self.passes(block("text", "a ──> b"))

    def test_what_is_not_run_has_a_reason(self):
        printed = self.passes(block("sh", "false", "not run: needs a GPU"))
        self.assertIn("page.md:6: needs a GPU", printed)
        self.assertIn("0 blocks run, 1 not run", printed)
        self.fails("wants a reason", block("sh", "false", "not run: no"))
        self.fails("wants a reason", block("sh", "false", "not run:"))
        self.fails("exit status 1", block("sh", "false", "notes: not run"))

    def test_a_mark_is_for_the_block_below_it_alone(self):
        self.fails("page.md:10: the block failed", block("sh", "false", "not run: needs a GPU"), block("sh", "false"))

    def test_variables_stay_for_the_page(self):
        self.passes(block("sh", "A='one  two'"), block("sh", 'test "$A" = "one  two"'))
        self.passes(block("sh", 'test "$B" = 2', "before: B=2"), block("sh", 'test "$B" = 2'))
        self.fails("unbound variable", block("sh", 'echo "$REQUEST"'))
        self.passes(block("sh", "printf 'X-Id: 7\\r\\n'"), block("sh", 'test "$I" = 7', "before: I=$(header x-id)"))

    def test_checks_decide(self):
        self.passes(block("sh", "echo word", 'check: grep -q word "$OUT"'))
        self.fails("exit status 1", block("sh", "echo word", 'check: grep -q other "$OUT"'))
        self.passes(block("sh", "echo word", 'before: echo other', 'check: ! grep -q other "$OUT"'))

    def test_a_block_may_be_ended(self):
        self.passes(block("sh", "echo ready; sleep 600", "until: ^ready"))
        self.fails("exit status 3", block("sh", "echo no; exit 3", "until: ^ready"))

    def test_languages(self):
        self.passes(block("console", "$ echo a \\\n  b\nwhat it printed", 'check: grep -qx "a b" "$OUT"'))
        self.fails("exit status 1", block("python", "raise ValueError()"))
        self.passes(block("python", "import holdfast\nprint(holdfast.version())"))
        self.passes(block("json", '{"a": 1}'), block("toml", "a = 1"))
        self.fails("no valid json", block("json", '{"a": …}'))
        self.fails("no valid toml", block("toml", "a ="))
        self.passes(block("c", "#include <holdfast.h>\nholdfast_error *error = NULL;\nputs(holdfast_version());"))
        self.fails("exit status 1", block("c", "#include <holdfast.h>\nholdfast_error *error = nothing;"))

    def test_what_is_missing_here_is_said(self):
        printed = self.passes(block("sh", "no-such-program", "with: no-such-program"),
                              block("python", "import no_such_module"))
        self.assertIn("no no-such-program on PATH", printed)
        self.assertIn("0 blocks run, 0 not run, 2 skipped", printed)

    def test_errors_of_http_are_failures(self):
        url = "http://127.0.0.1:8080"
        self.passes(block("sh", f"curl -s {url}/v1/models"), server="")
        self.fails("exit status 22", block("sh", f"curl -s {url}/v1/no-such-path"), server="")


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
