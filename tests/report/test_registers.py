#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
# Copyright the Orchard authors.
"""Tests of profiling/report/registers.py, on recorded logs."""

import contextlib
import io
import sys
import tempfile
import unittest
from pathlib import Path

sys.dont_write_bytecode = True
ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "profiling" / "report"))

import registers  # noqa: E402

# As CUDA 13.0 wrote it, of two kernels and some of their functions.
LOG = """\
ptxas info    : 0 bytes gmem
ptxas info    : Compiling entry function 'malloc_any' for 'sm_90'
ptxas info    : Function properties for malloc_any
    608 bytes stack frame, 0 bytes spill stores, 0 bytes spill loads
ptxas info    : Used 44 registers, used 0 barriers, 608 bytes cumulative stack size
ptxas info    : Compile time = 412.206 ms
ptxas info    : Function properties for _ZN7orchard6device9find_pageERKNS0_9heap_viewEjjj
    8 bytes stack frame, 0 bytes spill stores, 0 bytes spill loads
ptxas info    : Function properties for _ZN7orchard6device7courier5serveINS0_13magazine_sinkEEEvRNS0_11errand_withIT_EE
    0 bytes stack frame, 0 bytes spill stores, 0 bytes spill loads
ptxas info    : Compiling entry function '_ZN7orchard9registers8free_anyENS_8heap_refEPPv' for 'sm_90'
ptxas info    : Function properties for _ZN7orchard9registers8free_anyENS_8heap_refEPPv
    0 bytes stack frame, 0 bytes spill stores, 0 bytes spill loads
ptxas info    : Used 24 registers, used 0 barriers
ptxas info    : Function properties for _ZN7orchard6device10free_otherERKNS0_9heap_viewEPKv
    0 bytes stack frame, 0 bytes spill stores, 0 bytes spill loads
"""
MANGLED_FREE = "_ZN7orchard9registers8free_anyENS_8heap_refEPPv"
# As nvdisasm writes it, shortened.
LISTING = """\
.text.malloc_any:
        /*0000*/                   LDC R1, c[0x0][0x28] ;
        /*0010*/                   IMAD.WIDE.U32 R18, R0, 0x8, R2 ;
$malloc_any$_ZN7orchard6device9find_pageERKNS0_9heap_viewEjjj:
        /*0100*/                   LDG.E.64 R40, desc[UR8][R2.64+0x8] ;
.L_x_1:
        /*0110*/                   BRA `(.L_x_1) ;
.text.free_any:
        /*0000*/                   RET.REL.NODEC R21 `(free_any) ;
"""

# As the compiler writes it, shortened: two kernels, with a function between them.
PTX = """\
.visible .entry malloc_any(
	.param .u64 malloc_any_param_0
)
{
	ld.global.u64 %rd4, [%rd3+8];
	@%p1 bra $L__BB0_2;
	{ // callseq 7, 0
$L__BB0_2:
	ret;
}
.func orchard_note(
)
{
	ret;
}
.visible .entry free_any(
)
{
	atom.global.and.b64 %rd9, [%rd8], %rd7;
	ret;
}
"""


class Registers(unittest.TestCase):
    def run_main(self, log, *arguments):
        """Exit code, standard output and standard error for a log."""
        with tempfile.TemporaryDirectory() as folder:
            file = Path(folder) / "ptxas.log"
            if log is not None:
                file.write_text(log, encoding="utf-8")
            out, err = io.StringIO(), io.StringIO()
            with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
                code = registers.main(["--log", str(file), *arguments])
            return code, out.getvalue(), err.getvalue().replace(folder, "")

    def test_a_table_of_kernels_and_one_of_functions_with_a_stack_frame(self):
        code, out, err = self.run_main(LOG, "--malloc", "44", "--free", "24")
        self.assertEqual((code, err), (0, ""))
        self.assertEqual(out, "| kernel | for | registers | stack (B) | spill stores (B) | spill loads (B) |\n"
                              "|---|---|---:|---:|---:|---:|\n"
                              "| malloc_any | sm_90 | 44 | 608 | 0 | 0 |\n"
                              "| orchard::registers::free_any | sm_90 | 24 | 0 | 0 | 0 |\n\n"
                              "| kernel | function | highest register + 1 | stack (B) | spill stores (B) | "
                              "spill loads (B) |\n"
                              "|---|---|---:|---:|---:|---:|\n"
                              "| malloc_any | orchard::device::find_page | - | 8 | 0 | 0 |\n")

    def test_all_functions(self):
        _, out, _ = self.run_main(LOG, "--functions")
        self.assertIn("| malloc_any | orchard::device::courier::serve | - | 0 | 0 | 0 |\n", out)
        self.assertIn("| orchard::registers::free_any | orchard::device::free_other | - | 0 | 0 | 0 |\n", out)

    def test_no_limit_nothing_exceeded(self):
        self.assertEqual(self.run_main(LOG)[::2], (0, ""))

    def test_one_line_says_all_that_exceeds_its_limit(self):
        self.assertEqual(self.run_main(LOG, "--malloc", "43", "--free", "23")[::2],
                         (1, "registers.py: malloc_any takes 44 registers, at most 43; "
                             "orchard::registers::free_any takes 24 registers, at most 23\n"))
        self.assertEqual(self.run_main(LOG, "--malloc", "43")[::2],
                         (1, "registers.py: malloc_any takes 44 registers, at most 43\n"))
        self.assertEqual(self.run_main(LOG, "--free", "23")[0], 1)

    def test_a_stack_that_exceeds_its_limit(self):
        self.assertEqual(self.run_main(LOG, "--stack", "608")[::2], (0, ""))
        self.assertEqual(self.run_main(LOG, "--stack", "607", "--malloc", "43")[::2],
                         (1, "registers.py: malloc_any takes 608 bytes of stack, at most 607; "
                             "malloc_any takes 44 registers, at most 43\n"))

    def test_spills_of_a_kernel_and_of_a_function(self):
        spilling = LOG.replace("608 bytes stack frame, 0 bytes spill stores, 0", "608 bytes stack frame, 8 bytes spill stores, 4")
        self.assertEqual(self.run_main(spilling, "--malloc", "48")[::2], (1, "registers.py: malloc_any spills 8 bytes\n"))
        spilling = LOG.replace("8 bytes stack frame, 0 bytes spill stores, 0 bytes spill loads\nptxas info    : Function "
                               "properties for _ZN7orchard6device7c",
                               "8 bytes stack frame, 4 bytes spill stores, 4 bytes spill loads\nptxas info    : Function "
                               "properties for _ZN7orchard6device7c")
        self.assertEqual(self.run_main(spilling, "--malloc", "48")[::2],
                         (1, "registers.py: malloc_any (orchard::device::find_page) spills 4 bytes\n"))
        self.assertEqual(self.run_main(spilling, "--free", "24")[0], 0)

    def test_bad_logs(self):
        for log, words in ((None, "No such file"), ("", "names no kernel"),
                           (LOG.replace("Used 24 registers", ""), "how many registers orchard::registers::free_any")):
            code, out, err = self.run_main(log)
            self.assertEqual((code, out, err.count("\n")), (2, "", 1), err)
            self.assertIn("/ptxas.log", err)
            self.assertIn(words, err)

    def test_names(self):
        for mangled, plain in (("malloc_any", "malloc_any"),
                               ("_ZN7orchard6device9end_chunkERKNS0_9heap_viewEj", "orchard::device::end_chunk"),
                               ("_ZNK7orchard4heap4sizeEv", "orchard::heap::size"), ("_Z3fooi", "foo"),
                               ("__cuda_sm20_div_u64", "__cuda_sm20_div_u64")):
            self.assertEqual(registers.plain_name(mangled), plain)

    def test_the_registers_of_functions(self):
        self.assertEqual(registers.disassembled_registers(LISTING),
                         {("malloc_any", "malloc_any"): 19, ("malloc_any", "orchard::device::find_page"): 41,
                          ("free_any", "free_any"): 22})

    def changes(self, other_log, other_ptx):
        return list(registers.changes(registers.parse(LOG.replace(MANGLED_FREE, "free_any")),
                                      registers.parse(other_log.replace(MANGLED_FREE, "free_any")), PTX, other_ptx))

    def test_events_change_nothing_if_only_numbers_and_functions_differ(self):
        other = PTX.replace("%rd4", "%rd14").replace("callseq 7", "callseq 5").replace("BB0_2", "BB3_1")
        other = other.replace(".func orchard_note(\n)\n{\n", ".func orchard_note(\n)\n{\n\ttrap;\n")
        self.assertEqual(self.changes(LOG, other), [])

    def test_events_that_change_a_kernel(self):
        self.assertEqual(self.changes(LOG, PTX.replace("[%rd3+8]", "[%rd3+16]")),
                         ["malloc_any has other instructions without events, from line 4 of its PTX on"])
        self.assertEqual(self.changes(LOG, PTX.replace("atom.global.and.b64 %rd9, [%rd8], %rd7;\n", "")),
                         ["free_any has other instructions without events, from line 3 of its PTX on"])
        # The same registers in other places are another instruction.
        self.assertEqual(len(self.changes(LOG, PTX.replace("[%rd8], %rd7", "[%rd8], %rd8"))), 1)
        self.assertEqual(self.changes(LOG.replace("Used 24 registers", "Used 26 registers"), PTX),
                         ["free_any takes 24 registers and 0 bytes of stack, 26 and 0 without events"])
        self.assertEqual(self.changes(LOG.replace("    608 bytes", "    600 bytes"), PTX),
                         ["malloc_any takes 44 registers and 608 bytes of stack, 44 and 600 without events"])

    def test_a_kernel_that_is_missing_without_events(self):
        with self.assertRaisesRegex(registers.Unusable, "free_any is missing"):
            self.changes(LOG, PTX.replace("entry free_any", "entry other"))
        with self.assertRaisesRegex(registers.Unusable, "no kernel that allocates or frees"):
            list(registers.changes([], [], PTX, PTX))


if __name__ == "__main__":
    unittest.main()
