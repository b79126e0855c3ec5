#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
# Copyright the Orchard authors.
"""Tests of the launcher `orchard` in a small tree, with stand-ins for the tools that it calls: each writes down how it
was called, so that the tests see what a fresh machine would see."""

import os
import pty
import shutil
import subprocess
import tempfile
import unittest
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]

RECORD = 'echo "${0##*/} $*" >>"$CALLS"\n'
TOOLS = {
    # Prints what is installed: the packages asked for that are not in $MISSING, until they have been installed.
    "dpkg-query": """for package in "$@"; do
        case $package in -*|*' '*) continue ;; esac
        case " $MISSING " in *" $package "*) [ -e "$CALLS.installed" ] || continue ;; esac
        echo "install ok installed $package"
    done""",
    "apt-get": RECORD + """case $1 in install) [ -z "$APT_FAILS" ] || { echo 'E: no such mirror'; exit 100; }
        : >"$CALLS.installed" ;; esac""",
    "id": 'echo "$USER_ID"',
    "sudo": '[ "$SUDO" = yes ] || exit 1\n[ "$1" != -n ] || shift\n' + RECORD + '"$@"',
    "python3": RECORD + 'case $2 in venv) mkdir -p "$4/bin"; cp "$0" "$4/bin/python3" ;; esac; [ -z "$PYTHON_FAILS" ]',
    "ninja": "true",
    "nproc": "echo 2",
    "cmake": RECORD + """case $1 in
    --preset) [ -z "$CONFIGURE_FAILS" ] || { echo 'CMake Error: because'; exit 1; }
        echo '-- Orchard: a note'; echo '-- other'; : >"build/$2/CMakeCache.txt"
        printf '%s\\n' heap_tests orchard orchard_arena orchard_explore orchard_tests orchard_walk \\
            >"build/$2/targets.txt" ;;
    --build) [ -z "$BUILD_FAILS" ] || { echo 'heap.cpp:3: error: because'; exit 1; }
        case "$*" in
            *orchard_walk*) mkdir -p "$2/walk"; program="$2/walk/orchard" ;;
            *orchard_arena*) mkdir -p "$2/arena"; program="$2/arena/orchard" ;;
            *) program="$2/orchard" ;;
        esac
        { echo '#!/bin/sh'; echo 'printf "<%s>" "$PWD" "$@"; exit 7'; } >"$program"; chmod +x "$program"
        { echo '#!/bin/sh'; echo 'printf "[%s]" "$@"; exit 1'; } >"$2/orchard_explore"; chmod +x "$2/orchard_explore" ;;
    esac""",
    "ctest": RECORD + """[ -z "$TEST_LOG" ] || { mkdir -p "$2/Testing/Temporary"
        printf '%s' "$TEST_LOG" >"$2/Testing/Temporary/LastTest.log"; }
    exit 5""",
}


class Launcher(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.tree = Path(folder.name).resolve() / "tree"
        (self.tree / "cmake").mkdir(parents=True)
        (self.tree / "tests/python").mkdir(parents=True)
        for name in ["orchard", "CMakePresets.json", "cmake/packages.txt", "tests/python/requirements.txt"]:
            shutil.copy(ROOT / name, self.tree / name)
        self.tools = self.tree.parent / "tools"
        self.tools.mkdir()
        for name, body in TOOLS.items():
            (self.tools / name).write_text("#!/bin/sh\n" + body + "\n")
            (self.tools / name).chmod(0o755)
        self.calls_file = self.tree.parent / "calls"
        self.start_from = self.tree.parent

    def start(self, *arguments, launcher=None, **environment):
        """Runs the launcher; returns what subprocess returns, with `calls`: the lines that the tools wrote."""
        variables = {"PATH": f"{self.tools}:/usr/bin:/bin", "CALLS": str(self.calls_file), "MISSING": "", "USER_ID": "0",
                     "SUDO": "no"} | environment
        self.calls_file.write_text("")
        done = subprocess.run([launcher or self.tree / "orchard", *arguments], env=variables, cwd=self.start_from,
                              capture_output=True, text=True, check=False, stdin=subprocess.DEVNULL)
        done.calls = self.calls_file.read_text().splitlines()
        return done

    def test_demo_configures_builds_and_runs(self):
        done = self.start("demo", "two words", "--preset")
        build = self.tree / "build/release"
        self.assertEqual(done.calls,
                         ["cmake --preset release", f"cmake --build {build} --parallel 2 --target orchard_walk"])
        self.assertEqual(done.stdout, f"<{self.start_from}><demo><two words><--preset>")
        self.assertEqual(done.returncode, 7, "the exit code is the program's")
        self.assertIn("orchard: a note\n", done.stderr)
        self.assertNotIn("other", done.stderr)

    def test_demo_runs_the_whole_program_where_it_is_built(self):
        build = self.tree / "build/release"
        self.assertEqual(self.start("info").calls[-1], f"cmake --build {build} --parallel 2 --target orchard")
        done = self.start("demo")
        self.assertEqual(done.calls, [f"cmake --build {build} --parallel 2 --target orchard"])
        self.assertEqual(done.returncode, 7)

    def test_second_start_does_not_configure(self):
        self.start("demo")
        self.assertEqual([c for c in self.start("demo").calls if "--preset" in c], [])
        self.assertEqual([c for c in self.start("demo", CXX="g++-99").calls if "--preset" in c],
                         ["cmake --preset release"])

    def test_copied_tree_is_configured_anew(self):
        self.start("demo")
        copy = self.tree.parent / "copy"
        shutil.copytree(self.tree, copy)
        self.assertIn("cmake --preset release", self.start("demo", launcher=copy / "orchard").calls)

    def test_definitions_stay(self):
        build = ["build", "-DA=80;90"]
        self.assertEqual(self.start(*build).calls[0], "cmake --preset release -DA=80;90")
        self.assertNotIn("cmake --preset", " ".join(self.start("demo").calls))
        self.assertNotIn("cmake --preset", " ".join(self.start(*build).calls))
        self.assertEqual(self.start("build", "-DA=1").calls[0], "cmake --preset release -DA=1")

    def test_link_to_the_launcher(self):
        link = self.tools / "link"
        link.symlink_to(self.tree / "orchard")
        self.assertEqual(self.start("info", launcher=link).returncode, 7)

    def test_missing_packages_without_rights(self):
        done = self.start("demo", MISSING="libabsl-dev g++", USER_ID="1000")
        self.assertEqual((done.returncode, done.calls), (3, []))
        lines = done.stderr.splitlines()
        self.assertEqual(lines[-1], "sudo apt-get update && sudo apt-get install -y --no-install-recommends "
                                    "g++ libabsl-dev")
        self.assertFalse((self.tree / "build").exists())

    def test_missing_packages_can_be_ignored(self):
        done = self.start("demo", MISSING="libabsl-dev", USER_ID="1000", ORCHARD_NO_PACKAGES="1")
        self.assertEqual(done.returncode, 7)

    def test_missing_packages_are_installed(self):
        install = "apt-get install -y --no-install-recommends libabsl-dev"
        done = self.start("demo", MISSING="libabsl-dev")
        self.assertEqual(done.calls[:2], ["apt-get update", install])
        self.assertEqual(done.returncode, 7)
        (self.tree.parent / "calls.installed").unlink()
        done = self.start("demo", MISSING="libabsl-dev", USER_ID="1000", SUDO="yes")
        self.assertIn("sudo env DEBIAN_FRONTEND=noninteractive " + install, done.calls)
        self.assertEqual(done.returncode, 7)

    def answer(self, text, *arguments):
        """Runs the launcher where a person sits at a terminal, a package is missing, and the person types `text`."""
        person, terminal = pty.openpty()
        variables = {"PATH": f"{self.tools}:/usr/bin:/bin", "CALLS": str(self.calls_file), "MISSING": "libabsl-dev",
                     "USER_ID": "0", "SUDO": "no"}
        self.calls_file.write_text("")
        os.write(person, text)
        try:
            done = subprocess.run([self.tree / "orchard", *arguments], env=variables, cwd=self.start_from, check=False,
                                  stdin=terminal, stdout=subprocess.DEVNULL, stderr=terminal)
        finally:
            os.close(terminal)
        said = b""
        try:
            while part := os.read(person, 65536):
                said += part
        except OSError:  # the terminal's other side has gone
            pass
        finally:
            os.close(person)
        return done.returncode, said.decode(), self.calls_file.read_text().splitlines()

    def test_a_person_is_asked_before_packages_are_installed(self):
        install = "apt-get install -y --no-install-recommends libabsl-dev"
        for yes in (b"\n", b"y\n", b"Yes\n"):
            with self.subTest(answer=yes):
                Path(f"{self.calls_file}.installed").unlink(missing_ok=True)
                _, said, calls = self.answer(yes, "demo")
                self.assertIn("libabsl-dev", said)
                self.assertEqual(calls[:2], ["apt-get update", install])

    def test_a_person_may_say_no(self):
        for no in (b"n\n", b"what?\n", b"\x04"):
            with self.subTest(answer=no):
                code, said, calls = self.answer(no, "demo")
                self.assertEqual(code, 3)
                self.assertEqual(calls, [])
                self.assertIn("ORCHARD_NO_PACKAGES=1", said)

    def test_setup_does_not_ask(self):
        _, _, calls = self.answer(b"", "setup")
        self.assertEqual(calls[0], "apt-get update")

    def test_install_that_fails(self):
        done = self.start("demo", MISSING="libabsl-dev", APT_FAILS="1")
        self.assertEqual(done.returncode, 3)
        self.assertIn("no such mirror", done.stderr)
        self.assertNotIn("cmake", " ".join(done.calls))

    def test_formatter_is_not_needed_to_build(self):
        self.assertEqual(self.start("demo", MISSING="clang-format-14", USER_ID="1000").returncode, 7)
        self.assertEqual(self.start("format", MISSING="clang-format-14", USER_ID="1000").returncode, 3)

    def test_clang_is_needed_by_the_preset_fuzz_alone(self):
        for command in (["test"], ["build", "--preset", "asan"]):
            self.assertNotEqual(self.start(*command, MISSING="clang-14", USER_ID="1000").returncode, 3)
        self.assertEqual(self.start("build", "--preset", "fuzz", MISSING="clang-14", USER_ID="1000").returncode, 3)

    def test_step_that_fails(self):
        done = self.start("demo", CONFIGURE_FAILS="1")
        self.assertEqual(done.returncode, 1)
        self.assertIn("CMake Error: because", done.stderr)
        self.assertIn("build/release/configure.log", done.stderr)
        done = self.start("demo", BUILD_FAILS="1")
        self.assertEqual(done.returncode, 1)
        self.assertIn("heap.cpp:3: error: because", done.stderr)
        self.assertEqual(self.start("demo").returncode, 7, "a start after a failed one works")

    def test_tests_and_their_arguments(self):
        build = self.tree / "build/asan"
        done = self.start("test", "-R", "or_tree", "--preset", "asan", "-LE", "slow", "-DX=1")
        self.assertEqual(done.calls, [
            "cmake --preset asan -DX=1", f"cmake --build {build} --parallel 2 --target orchard_tests",
            f"ctest --test-dir {build} --output-on-failure --no-tests=error --parallel 2 -R or_tree -LE slow"])
        self.assertEqual(done.returncode, 5, "the exit code is ctest's")

    def test_tests_of_the_python_package(self):
        wanted = f"-r {self.tree / 'tests/python/requirements.txt'}"
        done = self.start("test", PYTHON_FAILS="1")
        self.assertIn("the tests of orchard.uvm are left out", done.stderr)
        self.assertEqual(done.returncode, 5)
        done = self.start("test")
        self.assertEqual(done.calls[0], f"python3 -m venv --clear {self.tree / 'build/python'}")
        self.assertTrue(done.calls[1].startswith("python3 -m pip install ") and done.calls[1].endswith(wanted))
        self.assertEqual(done.calls[2], "cmake --preset release", "it may find more now")
        self.assertNotIn("python3", " ".join(self.start("test").calls))
        with (self.tree / "tests/python/requirements.txt").open("a") as file:
            file.write("more\n")
        self.assertNotIn("python3", " ".join(self.start("test", ORCHARD_NO_PACKAGES="1").calls))
        self.assertIn("python3", " ".join(self.start("test").calls))

    def test_cases_are_counted(self):
        log = """[ RUN      ] heaps.one
[  SKIPPED ] heaps.one (0 ms)
[  PASSED  ] 3 tests.
[  SKIPPED ] 1 test, listed below:
[  SKIPPED ] heaps.one
[  PASSED  ] 1 test.
[  FAILED  ] 2 tests, listed below:
[  FAILED  ] heaps.two
[  FAILED  ] all/heaps.three/cuda, where GetParam() = cuda
Ran 12 tests in 0.5s
OK
Ran 20 tests in 0.5s
FAILED (failures=2, errors=3, skipped=4)
"""
        done = self.start("test", TEST_LOG=log)
        self.assertEqual(done.stdout, "cases: 27 passed, 5 skipped, 7 failed\n  skipped: heaps.one\n")
        self.assertEqual(done.returncode, 5, "the exit code is ctest's")
        names = "".join(f"[  SKIPPED ] heaps.{i}\n" for i in range(22))
        done = self.start("test", TEST_LOG=f"[  SKIPPED ] 22 tests, listed below:\n{names}")
        self.assertIn("  skipped: heaps.19\n  and 2 more: ", done.stdout)

    def test_counts_are_none_of_an_earlier_run(self):
        self.start("test", TEST_LOG="[  PASSED  ] 3 tests.\n")
        done = self.start("test", "-R", "none")
        self.assertEqual((done.stdout, done.returncode), ("", 5))
        self.assertIn("--gtest_filter=", done.stderr)

    def test_target_that_does_not_exist(self):
        done = self.start("build", "orchard", "heap")
        self.assertEqual((done.returncode, done.stdout), (2, ""))
        # It may be that of a folder that is newer than the configuration.
        self.assertEqual([call.split("/")[0] for call in done.calls], ["cmake --preset release", "cmake "])
        self.assertTrue(done.calls[1].endswith("/build/release"), done.calls[1])
        self.assertIn("there is no target 'heap'", done.stderr)
        self.assertIn("heap_tests orchard orchard_arena orchard_explore", done.stderr)
        self.assertEqual(self.start("build", "orchard", "tests/heap_tests", "all").returncode, 0)

    def test_explore_builds_and_runs_its_own_program(self):
        done = self.start("explore", "--scenario", "two words")
        self.assertEqual(done.calls[-1], f"cmake --build {self.tree / 'build/release'} --parallel 2 "
                                         "--target orchard_explore")
        self.assertEqual(done.stdout, "[explore][--scenario][two words]")
        self.assertEqual(done.returncode, 1, "the exit code is the program's")

    def test_the_arena_is_a_program_of_its_own(self):
        done = self.start("arena", "--quick", "--only", "two words")
        self.assertEqual(done.calls[-1], f"cmake --build {self.tree / 'build/release'} --parallel 2 "
                                         "--target orchard_arena")
        self.assertTrue((self.tree / "build/release/arena/orchard").exists())
        self.assertIn("<arena><--quick><--only><two words>", done.stdout)

    def test_another_allocator_is_one_of_the_arenas_program(self):
        for words in [("walk", "--allocator", "kma"), ("tree", "--quiet", "--allocator=kma"),
                      ("graph", "rmat:14", "--allocator", "rw_malloc")]:
            done = self.start(*words)
            self.assertIn("--target orchard_arena", done.calls[-1])
            self.assertIn("".join(f"<{word}>" for word in words), done.stdout)
        for words in [("walk", "--allocator", "orchard"), ("tree", "--allocator=orchard"), ("tree",), ("walk", "kma")]:
            self.assertNotIn("orchard_arena", self.start(*words).calls[-1])

    def test_pages_in_another_allocator_are_cases_of_the_arena(self):
        for words in [("--allocator", "kma", "--repeats", "3"), ("--repeats", "3", "--allocator=kma")]:
            done = self.start("bench", "pages", *words)
            self.assertIn("--target orchard_arena", done.calls[-1])
            self.assertIn("<arena><--full><--only><winter_9a,", done.stdout)
            self.assertIn("<--allocator><orchard>" + "".join(f"<{word}>" for word in words), done.stdout)
            self.assertNotIn("<pages>", done.stdout)
        quick = self.start("bench", "pages", "--quick", "--allocator", "kma").stdout
        self.assertIn("<--quick>", quick)
        self.assertNotIn("<--full>", quick)
        for words in [("pages",), ("pages", "--allocator", "orchard"), ("maps", "--allocator", "kma")]:
            self.assertNotIn("orchard_arena", self.start("bench", *words).calls[-1])

    def test_the_arena_takes_code_of_others(self):
        checkout = self.tree / "theirs"
        (checkout / "include").mkdir(parents=True)
        (self.tree / "profiling/adapters").mkdir(parents=True)
        (self.tree / "profiling/adapters/gallatin.cu").touch()
        done = self.start("arena", "--quick", "--with", f"gallatin={checkout}")
        self.assertIn("<arena><--quick>", done.stdout)
        configured = [call for call in done.calls if call.startswith("cmake --preset")]
        self.assertIn(f"-DORCHARD_ARENA_ADAPTERS={self.tree}/profiling/adapters/gallatin.cu", configured[0])
        self.assertIn(f"-DORCHARD_ARENA_INCLUDE_DIRS={checkout}/include", configured[0])
        (checkout / "alpaka/include").mkdir(parents=True)
        done = self.start("arena", "--with", f"gallatin={checkout}")
        configured = [call for call in done.calls if call.startswith("cmake --preset")]
        self.assertIn(f"-DORCHARD_ARENA_INCLUDE_DIRS={checkout}/include;{checkout}/alpaka/include", configured[0])
        self.assertIn("-DORCHARD_ARENA_COMMITS= ", configured[0] + " ")
        identity = ["-c", "user.name=a", "-c", "user.email=a@b"]
        for words in (["init", "-q"], [*identity, "commit", "-q", "--allow-empty", "-m", "theirs"]):
            subprocess.run(["git", "-C", checkout, *words], check=True)
        commit = subprocess.run(["git", "-C", checkout, "rev-parse", "--short", "HEAD"], check=True, text=True,
                                capture_output=True).stdout.strip()
        done = self.start("arena", "--with", f"gallatin={checkout}")
        configured = [call for call in done.calls if call.startswith("cmake --preset")]
        self.assertIn(f"-DORCHARD_ARENA_COMMITS=gallatin={commit} ", configured[0] + " ")
        only_source = self.tree / "others"
        (only_source / "source").mkdir(parents=True)
        done = self.start("arena", "--with", f"gallatin={only_source}")
        configured = [call for call in done.calls if call.startswith("cmake --preset")]
        self.assertIn(f"-DORCHARD_ARENA_INCLUDE_DIRS={only_source}/source", configured[0])
        packages = self.tree / "packages"
        for folder in ("librmm/include/rapids", "librmm/lib64", "rapids_logger/include"):
            (packages / folder).mkdir(parents=True)
        (packages / "librmm/lib64/librmm.so").touch()
        done = self.start("arena", "--with", f"gallatin={packages}")
        configured = [call for call in done.calls if call.startswith("cmake --preset")]
        folders = [f"{packages}/{f}" for f in ("librmm/include", "librmm/include/rapids", "rapids_logger/include")]
        self.assertIn(f"-DORCHARD_ARENA_INCLUDE_DIRS={';'.join(folders)}", configured[0])
        self.assertIn(f"-DORCHARD_ARENA_LIBRARIES={packages}/librmm/lib64/librmm.so", configured[0])
        for wrong, words in [("unknown=/tmp", "is one of: gallatin"), ("gallatin", "NAME=CHECKOUT"),
                             (f"gallatin={self.tree}/none", "there is no folder")]:
            with self.subTest(wrong=wrong):
                done = self.start("arena", "--with", wrong)
                self.assertEqual(done.returncode, 2)
                self.assertEqual(len(done.stderr.splitlines()), 1, done.stderr)
                self.assertIn(words, done.stderr)

    def test_wrong_arguments(self):
        for arguments, words in [(["--preset", "none", "demo"], "'none'"), (["test", "--preset"], "needs a name"),
                                 (["build", "--clean"], "--clean"), (["format", "--what"], "--what"),
                                 (["build", "-DA=two words"], "two words")]:
            with self.subTest(arguments=arguments):
                done = self.start(*arguments)
                self.assertEqual((done.returncode, done.calls), (2, []))
                self.assertEqual(len(done.stderr.splitlines()), 1, done.stderr)
                self.assertIn(words, done.stderr)

    def test_help_builds_nothing(self):
        for arguments in [[], ["--help"], ["help"]]:
            done = self.start(*arguments)
            self.assertEqual((done.returncode, done.calls), (0, []))
            self.assertIn("./orchard demo", done.stdout)
        self.start("info")
        self.assertIn("<--help>", self.start("--help").stdout)


if __name__ == "__main__":
    unittest.main()
