#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes data.nex: sequences that evolved along a random tree, and what MrBayes is to do with them."""
import os
import sys

sys.dont_write_bytecode = True
sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "tests", "cluster"))
import test_programs  # noqa: E402

TAXA, SITES = 24, 6000
test_programs.write_alignment(".", TAXA, SITES)
with open("alignment.phy", encoding="utf-8") as file:
    rows = file.read().split("\n", 1)[1]
with open("data.nex", "w", encoding="utf-8") as file:
    file.write(f"#NEXUS\nbegin data;\ndimensions ntax={TAXA} nchar={SITES};\nformat datatype=dna;\nmatrix\n{rows};\nend;\n"
               "begin mrbayes;\nset autoclose=yes nowarn=yes;\nlset nst=6 rates=gamma;\n"
               "mcmc ngen=100000000 nruns=1 nchains=4 printfreq=20 samplefreq=10000 diagnfreq=1000000;\nend;\n")
