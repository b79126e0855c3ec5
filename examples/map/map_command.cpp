// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.

/// `orchard map`: draws the map of a heap.
///
///     map_command         declares the flags
///       draw_map
///         load                --dump: read_map; --pid: dump_of_process; --example: map_of_mixed_sizes
///         picture_of          by the end of the output's name: html, svg, png, json

#include <unistd.h>

#include <CLI/CLI.hpp>
#include <cstdlib>
#include <iostream>
#include <memory>
#include <optional>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "examples/map/mixed_sizes.hpp"
#include "runtime/cli/command_line.hpp"
#include "runtime/cli/map/map_page.hpp"
#include "runtime/cli/map/map_picture.hpp"
#include "runtime/cli/map/read_map.hpp"
#include "runtime/cli/options_cli.hpp"
#include "runtime/cli/output_file.hpp"
#include "runtime/live/live_reader.hpp"

namespace orchard::examples {
namespace {

struct map_arguments {
    std::string dump;
    int pid = 0;
    std::optional<std::uint32_t> number;  ///< of the heap in its process
    bool example = false;
    std::string output;
    options heap;
};

/// A file with a name that no other file has, removed at the end.
class temporary_file {
public:
    temporary_file() {
        const char* const folder = ::getenv("TMPDIR");
        path_ = absl::StrCat(folder != nullptr && *folder == '/' ? folder : "/tmp", "/orchard_map_XXXXXX");
        fd_ = ::mkstemp(path_.data());
    }
    temporary_file(const temporary_file&) = delete;
    temporary_file& operator=(const temporary_file&) = delete;
    ~temporary_file() {
        if (fd_ >= 0) {
            ::close(fd_);
            ::unlink(path_.c_str());
        }
    }
    [[nodiscard]] bool exists() const { return fd_ >= 0; }
    [[nodiscard]] const std::string& path() const { return path_; }

private:
    std::string path_;
    int fd_ = -1;
};

/// Returns the map of a heap of another process, which writes it when asked by its live page. The one place where the
/// command reaches another process.
absl::StatusOr<heap_map> map_of_process(const map_arguments& a) {
    std::vector<live::page_name> pages = live::living_pages();
    std::erase_if(pages,
                  [&a](const live::page_name& p) { return p.pid != a.pid || (a.number && p.heap != *a.number); });
    if (pages.empty()) {
        return absl::NotFoundError(absl::StrFormat(
            "process %d has no such heap with a live page; start it with ORCHARD_LIVE_PAGE=1, or let it "
            "call heap::dump (`orchard top --list` lists the heaps)",
            a.pid));
    }
    if (pages.size() > 1) {
        return absl::InvalidArgumentError(absl::StrFormat(
            "process %d has %d heaps; name one with --heap N: %s", a.pid, pages.size(),
            absl::StrJoin(pages, ", ",
                          [](std::string* to, const live::page_name& p) { absl::StrAppend(to, p.heap); })));
    }
    auto reader = live::live_reader::open(pages.front());
    if (!reader.ok()) {
        return reader.status();
    }
    const temporary_file file;
    if (!file.exists()) {
        return absl::UnknownError(absl::StrFormat("%s: cannot be made", file.path()));
    }
    const auto answer = reader->send(live::command::dump, 0, file.path(), absl::Seconds(60));
    return answer.ok() ? command_line::read_map(file.path()) : answer.status();
}

absl::StatusOr<heap_map> load(const map_arguments& a) {
    if (static_cast<int>(!a.dump.empty()) + static_cast<int>(a.pid != 0) + static_cast<int>(a.example) != 1) {
        return absl::InvalidArgumentError("give one of --dump FILE, --pid N and --example");
    }
    return a.example ? map_of_mixed_sizes(a.heap) : a.pid != 0 ? map_of_process(a) : command_line::read_map(a.dump);
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
                app.add_option("--dump", a->dump, "The map that heap::dump, or another command's --dump, has written")
                    ->type_name("FILE");
                app.add_option("--pid", a->pid, "Ask the heap of a running process, which has the option live_page")
                    ->type_name("N")
                    ->check(CLI::Range(1, 1 << 22).description(""));
                app.add_option("--heap", a->number, "Its number, where the process has several (`orchard top --list`)")
                    ->type_name("N");
                app.add_flag("--example", a->example, "Make a heap, and allocate and free blocks of many sizes in it");
                app.add_option("-o,--output", a->output, "The picture: .html (a page to zoom), .svg, .png, or .json")
                    ->type_name("FILE")
                    ->required();
                add_to(app, a->heap);
            },
            [a] { return command_line::exit_code(draw_map(*a)); }};
}

const command_line::registrar map_command_registered{map_command};

}  // namespace
}  // namespace orchard::examples
