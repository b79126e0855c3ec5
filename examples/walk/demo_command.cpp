// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.

/// `orchard demo`: the walk on the real graph, with an explanation of the output. The data file is part of the source
/// tree and of an installation; examples/data/README.md describes it.

#include <CLI/CLI.hpp>
#include <checkout.hpp>
#include <filesystem>
#include <memory>
#include <system_error>

#include "absl/status/statusor.h"
#include "absl/strings/str_format.h"
#include "examples/walk/walk_command.hpp"
#include "runtime/cli/command_line.hpp"

namespace orchard::examples {

namespace {

// Of the folder examples/data, and of share/orchard in an installation.
constexpr char data_file[] = "debian12-dependencies.mtx.gz";

// Printed before the report.
constexpr char explanation[] =
    R"(This is the dependency graph of Debian 12: every package is a vertex, and an edge joins two packages where one
names the other as a dependency. A few packages (libc6) have very many neighbours and most have few, and no earlier
pass counts them: each vertex's list lives in the heap and grows as device threads insert edges.

What happened, phase by phase:
  insert           threads insert the edges in random order, both directions; a full list is moved by realloc to one
                   of twice its size
  walk             walkers go from vertex to vertex at random; each keeps what it visited in a list that grows by malloc
  check adjacency  all lists are copied back and compared with the file
  check walks      warps gather the walks in logs, one large request each, which the host copies at once; it looks at
                   every step and walks every walk again with the same random numbers
  free             kernels free everything; the heap must then be empty and valid; the last checks say which paths were used

Small requests are pages of slabs, taken from bitmaps by the device alone. Whole segments of 2 MiB, for new slabs and
for large requests, come from a host thread through a mailbox ("host_requests"), many at a time.

)";

/// Returns the path of the data file in the source tree, or in the installation that this program belongs to:
/// PREFIX/bin/orchard has it in PREFIX/share/orchard. Errors: NotFound with both paths.
absl::StatusOr<std::string> find_data() {
    std::error_code failed;
    const std::filesystem::path program = std::filesystem::read_symlink("/proc/self/exe", failed);
    const std::filesystem::path candidates[] = {
        std::filesystem::path(ORCHARD_SOURCE_DIR) / "examples" / "data" / data_file,
        program.parent_path().parent_path() / "share" / "orchard" / data_file,
    };
    for (const std::filesystem::path& candidate : candidates) {
        if (std::filesystem::exists(candidate, failed)) {
            return candidate.string();
        }
    }
    return absl::NotFoundError(absl::StrFormat("%s is neither at %s nor at %s; use `orchard walk FILE` instead",
                                               data_file, candidates[0].string(), candidates[1].string()));
}

/// Returns the subcommand: `orchard walk` with a file that is found, and a text before the report.
command_line::subcommand demo_command() {
    const auto arguments = std::make_shared<walk_arguments>();
    return {"demo", "The walk on a real graph, with an explanation of what is seen", "Examples",
            [arguments](CLI::App& app) { add_walk_flags(app, *arguments); },
            [arguments] {
                const absl::StatusOr<std::string> data = find_data();
                if (!data.ok()) {
                    return command_line::exit_code(data.status());
                }
                arguments->file = *data;
                return run_walk_command(*arguments, explanation);
            }};
}

const command_line::registrar demo_command_registered{demo_command};

}  // namespace

}  // namespace orchard::examples
