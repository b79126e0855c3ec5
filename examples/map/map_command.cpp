// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.

/// `orchard map`: draws the map of a heap.
///
///     map_command         declares the flags
///       draw_map
///         load                --dump: read_map; --pid: dump_of_process; --example: map_of_mixed_sizes
///         picture_of          by the end of the output's name: html, svg, png, json

#include <CLI/CLI.hpp>
#include <iostream>
#include <memory>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "examples/map/mixed_sizes.hpp"
#include "runtime/cli/command_line.hpp"
#include "runtime/cli/map/map_page.hpp"
#include "runtime/cli/map/map_picture.hpp"
#include "runtime/cli/map/read_map.hpp"
#include "runtime/cli/options_cli.hpp"
#include "runtime/cli/output_file.hpp"

namespace orchard::examples {
namespace {

struct map_arguments {
    std::string dump;
    int pid = 0;
    bool example = false;
    std::string output;
    options heap;
};

/// Returns the map of a heap of process `pid`. The one place where the command reaches another process.
absl::StatusOr<heap_map> map_of_process(int pid) {
    return absl::UnimplementedError(absl::StrFormat(
        "this orchard cannot ask process %d for its map; let the program call heap::dump(FILE), and give "
        "--dump FILE",
        pid));
}

absl::StatusOr<heap_map> load(const map_arguments& a) {
    if (static_cast<int>(!a.dump.empty()) + static_cast<int>(a.pid != 0) + static_cast<int>(a.example) != 1) {
        return absl::InvalidArgumentError("give one of --dump FILE, --pid N and --example");
    }
    return a.example ? map_of_mixed_sizes(a.heap) : a.pid != 0 ? map_of_process(a.pid) : command_line::read_map(a.dump);
}

/// Returns the kind of file that a name stands for; empty for an unknown one.
std::string kind_of(const std::string& name) {
    for (const char* const kind : {"html", "svg", "png", "json"}) {
        if (absl::EndsWithIgnoreCase(name, absl::StrCat(".", kind))) {
            return kind;
        }
    }
    return "";
}

std::string picture_of(const heap_map& map, const std::string& kind) {
    return kind == "html"  ? command_line::map_page(map)
           : kind == "svg" ? command_line::map_svg(map)
           : kind == "png" ? command_line::map_png(map)
                           : to_json(map);
}

absl::Status draw_map(const map_arguments& a) {
    const std::string kind = kind_of(a.output);
    if (kind.empty()) {
        return absl::InvalidArgumentError(absl::StrFormat(
            "%s: the name must end with .html, .svg, .png or .json, which says what is written", a.output));
    }
    const absl::StatusOr<heap_map> map = load(a);
    if (!map.ok()) {
        return map.status();
    }
    absl::Status written = command_line::write_file(a.output, picture_of(*map, kind));
    if (written.ok()) {
        std::cout << absl::StrFormat("%s: %d segments, %d of them with memory\n", a.output, map->segments,
                                     totals_of(*map).committed);
    }
    return written;
}

command_line::subcommand map_command() {
    const auto a = std::make_shared<map_arguments>();
    return {"map", "Draw what each segment of a heap is used for", "Examples",
            [a](CLI::App& app) {
                *a = {};
                app.add_option("--dump", a->dump, "The map that heap::dump, or another command's --dump, has written")
                    ->type_name("FILE");
                app.add_option("--pid", a->pid, "Ask the heap of a running process")
                    ->type_name("N")
                    ->check(CLI::Range(1, 1 << 22).description(""));
                app.add_flag("--example", a->example, "Make a heap, and allocate and free blocks of many sizes in it");
                app.add_option("-o,--output", a->output, "The picture: .html (a page to zoom), .svg, .png, or .json")
                    ->type_name("FILE")
                    ->required();
                add_to(app, a->heap);
            },
            [a] { return command_line::exit_code(draw_map(*a)); }};
}

const command_line::registrar map_command_registered{map_command()};

}  // namespace
}  // namespace orchard::examples
