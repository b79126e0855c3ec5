// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.

/// `orchard programs`: runs the programs that README.md and docs/programs.md show; the programs check their own
/// results. Each is a file with a `main` in a namespace of its own.
///
///     orchard programs                    runs all of them; those that need a GPU are left out if there is none
///     orchard programs streams graph      runs these two, or says which one is not known or cannot run here
///
/// A new program is a file in examples/programs, a declaration and a row here, and its text in docs/programs.md; a test
/// fails if one of them is missing.

#include <CLI/CLI.hpp>
#include <cstdio>
#include <iostream>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "runtime/cli/command_line.hpp"
#include "runtime/machine/machine_info.hpp"
#include "runtime/nvtx/phase.hpp"

namespace orchard::examples {

// The `main` of each program's file. All but the first are compiled in a build with CUDA only.
namespace both_devices {
int main();
}
#if ORCHARD_HAS_CUDA
namespace kernel {
int main();
}
namespace streams {
int main();
}
namespace objects {
int main();
}
namespace graph {
int main();
}
namespace side_by_side {
int main();
}
namespace failures {
int main();
}
namespace two_heaps {
int main();
}
#define ORCHARD_CUDA_PROGRAM(name)                                                                                     \
    { #name, name::main, true }
#else
#define ORCHARD_CUDA_PROGRAM(name)                                                                                     \
    { #name, nullptr, true }
#endif

namespace {

/// A program: its name (of the file and of the namespace), its `main`, and whether it needs a GPU.
struct program {
    const char* name;
    int (*main)();    ///< null if this build has no CUDA
    bool needs_cuda;  ///< runs only if a GPU is usable
};
constexpr program programs[] = {{"both_devices", both_devices::main, false},
                                ORCHARD_CUDA_PROGRAM(kernel),
                                ORCHARD_CUDA_PROGRAM(streams),
                                ORCHARD_CUDA_PROGRAM(objects),
                                ORCHARD_CUDA_PROGRAM(graph),
                                ORCHARD_CUDA_PROGRAM(side_by_side),
                                ORCHARD_CUDA_PROGRAM(failures),
                                ORCHARD_CUDA_PROGRAM(two_heaps)};

/// Returns the program of that name; null if there is none.
const program* find(const std::string& name) {
    for (const program& p : programs) {
        if (p.name == name) {
            return &p;
        }
    }
    return nullptr;
}

/// Returns NotFound, with the names of all programs.
absl::Status unknown(const std::string& name) {
    const std::string known =
        absl::StrJoin(programs, ", ", [](std::string* to, const program& p) { absl::StrAppend(to, p.name); });
    return absl::NotFoundError(absl::StrFormat("there is no program \"%s\"; the programs are %s", name, known));
}

/// Runs one program to its end. Errors: Internal, with the value that its `main` returned, if that is not 0. The
/// program prints by stdio and this file by iostreams; both are flushed, so that the program's output comes before the
/// line that reports its result. A program is one phase for profilers, so that its text stays short.
absl::Status run(const program& p) {
    const nvtx::phase marked(nvtx::phase::compute);
    const int code = p.main();
    std::fflush(stdout);
    if (code != 0) {
        return absl::InternalError(absl::StrFormat("%s ended with %d", p.name, code));
    }
    std::cout << absl::StrFormat("passed    %s\n", p.name) << std::flush;
    return absl::OkStatus();
}

/// Runs the programs in `names`, if each of them exists and can run here. All names are checked before the first
/// program runs. `gpu`: why there is no usable GPU, or OK. Stops at the first program that fails.
absl::Status run_named(const std::vector<std::string>& names, const absl::Status& gpu) {
    std::vector<const program*> chosen;
    for (const std::string& name : names) {
        chosen.push_back(find(name));
        if (chosen.back() == nullptr) {
            return unknown(name);
        }
        if (chosen.back()->needs_cuda && !gpu.ok()) {
            return gpu;
        }
    }
    absl::Status status;
    for (std::size_t i = 0; i < chosen.size() && status.ok(); ++i) {
        status = run(*chosen[i]);
    }
    return status;
}

/// Runs all programs that can run here, and lists those that cannot, which is no error. After a program that failed, no
/// other runs.
absl::Status run_all(const absl::Status& gpu) {
    absl::Status status;
    for (const program& p : programs) {
        if (p.needs_cuda && !gpu.ok()) {
            std::cout << absl::StrFormat("left out  %s: %s\n", p.name, std::string(gpu.message()));
        } else if (status.ok()) {
            status = run(p);
        }
    }
    return status;
}

/// Runs the programs in `names`, or all of them without a name.
absl::Status run_programs(const std::vector<std::string>& names) {
    const absl::Status gpu = choose_device(device_option::cuda).status();
    return names.empty() ? run_all(gpu) : run_named(names, gpu);
}

command_line::subcommand programs_command() {
    const auto names = std::make_shared<std::vector<std::string>>();
    return {"programs", "Run the programs that README.md and docs/programs.md show", "Examples",
            [names](CLI::App& app) { app.add_option("name", *names, "Which ones; without a name all"); },
            [names] { return command_line::exit_code(run_programs(*names)); }};
}

const command_line::registrar programs_command_registered{programs_command};

}  // namespace
}  // namespace orchard::examples
