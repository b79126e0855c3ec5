// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.
#pragma once

/// How the commands that check their result run.

#include <string>

#include "examples/report/check.hpp"
#include "runtime/cli/command_line.hpp"
#include "runtime/cli/json_output.hpp"

namespace orchard::examples {

/// Runs `execute(a)`, prints its text and its checks, and writes its document. Returns the exit code: 1 if a required
/// check failed. `Arguments` has `json` and `quiet`; what `execute` returns has `device` and `checks`. The file is
/// opened before the work, so that a long run does not end with an error about it.
template <class Arguments, class Execute, class Text, class Json>
int run_checked(Arguments& a, const Execute& execute, const Text& to_text, const Json& json_of_run) {
    auto out = command_line::json_output::open(a.json);
    if (!out.ok()) {
        return command_line::exit_code(out.status());
    }
    const auto run = execute(a);
    if (!run.ok()) {
        return command_line::exit_code(run.status());
    }
    out->text() << (a.quiet ? std::string() : to_text(a, *run)) << checks_text(run->checks);
    nlohmann::ordered_json members = json_of_run(a, *run);
    members["checks"] = json_of(run->checks);
    if (absl::Status s = out->commit(command_line::device_json(run->device), members); !s.ok()) {
        return command_line::exit_code(s);
    }
    return passed(run->checks) ? 0 : 1;
}

}  // namespace orchard::examples
