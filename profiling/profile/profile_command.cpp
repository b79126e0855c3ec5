// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.

/// `orchard profile`: runs a program with CUPTI's records, without a change to it, and prints tables of them.
///
///     run
///       find_libraries     the recorder and CUPTI
///       run_profiled       the program writes a file of records for each of its processes
///       read_folder        all files, each checked
///       report             tables, JSON, the program's exit code

#include <stdlib.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "profiling/profile/record_file.hpp"
#include "profiling/profile/report.hpp"
#include "profiling/profile/run_profiled.hpp"
#include "profiling/profile/summary.hpp"
#include "runtime/cli/command_line.hpp"
#include "runtime/cli/json_output.hpp"
#include "runtime/options/byte_size.hpp"

namespace orchard::profiling {
namespace {

namespace fs = std::filesystem;

struct arguments {
    std::string program;            ///< always empty
    const CLI::App* app = nullptr;  ///< has the program's arguments: all that remains
    std::string read;
    std::string keep;
    std::string limit = "1GiB";
    bool samples = false;
    std::size_t rows = 20;
    command_line::json_option json;
};

constexpr char extension[] = ".records";

/// A folder for files of records: one that the user named, or a new one that is removed again.
class records_folder {
public:
    /// Errors: InvalidArgument if it cannot be made, or has files of records already, which would be mixed with the
    /// new ones.
    static absl::StatusOr<std::unique_ptr<records_folder>> make(const std::string& keep) {
        std::error_code error;
        if (keep.empty()) {
            std::string path = (fs::temp_directory_path(error) / "orchard-profile-XXXXXX").string();
            if (error || ::mkdtemp(path.data()) == nullptr) {
                return absl::InvalidArgumentError(
                    absl::StrCat(path, ": no folder for the records can be made; set TMPDIR, or give --keep DIR"));
            }
            return std::unique_ptr<records_folder>(new records_folder(path, true));
        }
        fs::create_directories(keep, error);
        if (error) {
            return absl::InvalidArgumentError(absl::StrCat("--keep: ", keep, ": ", error.message()));
        }
        const fs::path whole = fs::absolute(keep, error);  // the program may go to another folder
        for (const auto& entry : fs::directory_iterator(whole, error)) {
            if (entry.path().extension() == extension) {
                return absl::InvalidArgumentError(absl::StrCat(
                    "--keep: ", keep, " has records of an earlier run; give a new folder, or remove them"));
            }
        }
        return std::unique_ptr<records_folder>(new records_folder(whole.string(), false));
    }
    records_folder(const records_folder&) = delete;
    records_folder& operator=(const records_folder&) = delete;
    ~records_folder() {
        std::error_code error;
        if (is_temporary_) {
            fs::remove_all(path_, error);
        }
    }
    [[nodiscard]] const std::string& path() const { return path_; }

private:
    records_folder(std::string path, bool temporary) : path_{std::move(path)}, is_temporary_{temporary} {}
    std::string path_;
    bool is_temporary_;
};

/// Returns the records of a file, or of all files of a folder in the order of their names; none for an empty folder.
/// Errors: InvalidArgument for a folder that this user may not read; those of `read_records`.
absl::StatusOr<std::vector<recorded_process>> read_all(const std::string& path) {
    std::error_code error;
    std::vector<std::string> files;
    if (fs::is_directory(path, error)) {
        for (const auto& entry : fs::directory_iterator(path, error)) {
            if (entry.path().extension() == extension) {
                files.push_back(entry.path().string());
            }
        }
        if (error) {
            return absl::InvalidArgumentError(absl::StrCat(path, ": cannot be read: ", error.message(),
                                                           "; run this as a user with the right to read it"));
        }
        std::sort(files.begin(), files.end());
    } else {
        files.push_back(path);
    }
    std::vector<recorded_process> result;
    for (const std::string& file : files) {
        absl::StatusOr<recorded_process> one = read_records(file);
        if (!one.ok()) {
            return one.status();
        }
        result.push_back(*std::move(one));
    }
    return result;
}

/// Returns the error of a run without records; OK if there are some.
absl::Status check_recorded(const std::vector<recorded_process>& processes, const std::string& program) {
    if (processes.empty()) {
        return absl::FailedPreconditionError(
            absl::StrCat(program, " did not use CUDA, or found no driver: nothing was recorded"));
    }
    for (const recorded_process& p : processes) {
        for (const problem& one : p.problems) {
            if (one.code == problem_code::no_cupti) {
                return absl::FailedPreconditionError(readable_name(one.text));
            }
        }
    }
    return absl::OkStatus();
}

/// Returns the program and its arguments; none if no program is given. A "--" before them belongs to this command.
std::vector<std::string> words_of(const arguments& a) {
    std::vector<std::string> words = a.app->remaining();
    if (!words.empty() && words.front() == "--") {
        words.erase(words.begin());
    }
    return words;
}

absl::Status check(const arguments& a, std::uint64_t& limit) {
    const std::vector<std::string> words = words_of(a);
    if (!words.empty() && words.front().starts_with("-") && a.app->remaining().front() != "--") {
        return absl::InvalidArgumentError(absl::StrCat("profile: unknown option ", words.front(),
                                                       "; run `orchard profile --help`, or put -- before the program"));
    }
    if (words.empty() == a.read.empty()) {
        return absl::InvalidArgumentError(
            words.empty() ? "profile: no program is given; give PROGRAM and its arguments, or --read PATH"
                          : "--read: it prints records of an earlier run; leave the program out");
    }
    const absl::StatusOr<std::uint64_t> bytes = parse_bytes(a.limit);
    if (!bytes.ok()) {
        return absl::InvalidArgumentError(absl::StrCat("--limit: ", bytes.status().message()));
    }
    limit = *bytes;
    return absl::OkStatus();
}

/// Prints the tables and writes the document.
absl::Status report(const std::vector<recorded_process>& processes, const run_facts& facts,
                    command_line::json_output& out) {
    const summary all = summarise(processes);
    out.text() << to_text(all, facts);
    return out.commit(command_line::device_json("none", "the program chooses its devices itself"), to_json(all, facts));
}

/// Runs the program. Sets `exit_code` to the program's as soon as it is known.
absl::Status profile(const arguments& a, std::uint64_t limit, command_line::json_output& out, int& exit_code) {
    const absl::StatusOr<recording_libraries> libraries = find_libraries();
    if (!libraries.ok()) {
        return libraries.status();
    }
    const auto folder = records_folder::make(a.keep);
    if (!folder.ok()) {
        return folder.status();
    }
    const std::vector<std::string> words = words_of(a);
    const absl::StatusOr<int> code =
        run_profiled({words, *libraries, (*folder)->path(), limit, a.samples, out.owns_standard_output()});
    if (!code.ok()) {
        return code.status();
    }
    exit_code = *code;
    const auto processes = read_all((*folder)->path());
    absl::Status status = processes.status();
    status.Update(status.ok() ? check_recorded(*processes, words[0]) : status);
    if (status.ok()) {
        status = report(*processes, {absl::StrJoin(words, " "), *code, a.samples, a.rows}, out);
    }
    return status;
}

/// Returns the exit code: the program's, unless it is 0 and nothing could be recorded.
int run(const arguments& a) {
    std::uint64_t limit = 0;
    absl::Status status = check(a, limit);
    if (!status.ok()) {
        return command_line::exit_code(status);
    }
    absl::StatusOr<command_line::json_output> out = command_line::json_output::open(a.json);
    if (!out.ok()) {
        return command_line::exit_code(out.status());
    }
    int program = 0;
    if (a.read.empty()) {
        status = profile(a, limit, *out, program);
    } else if (const auto processes = read_all(a.read); !processes.ok()) {
        status = processes.status();
    } else {
        status = processes->empty() ? absl::NotFoundError(absl::StrCat(
                                          a.read, ": it has no files of records; name a folder that --keep has filled"))
                                    : report(*processes, {"", 0, false, a.rows}, *out);
    }
    const int own = command_line::exit_code(status);
    return program != 0 ? program : own;
}

void declare(CLI::App& app, arguments& a) {
    a = {};
    command_line::add_json(app, a.json, "Write the tables");
    app.add_flag("--samples", a.samples, "Sample the program counter, for the time in functions of the allocator");
    app.add_option("--rows", a.rows, "Most rows of a table")->capture_default_str()->type_name("N");
    app.add_option("--limit", a.limit, "Most bytes of records of a process; what comes later is counted alone")
        ->capture_default_str()
        ->type_name("SIZE");
    app.add_option("--keep", a.keep, "Keep the files of records in this folder")->type_name("DIR");
    app.add_option("--read", a.read, "Print records that --keep has kept: a folder, or one FILE of it")
        ->type_name("FILE");
    // What follows the program is the program's, also where it looks like an option of this command. CLI11 keeps all of
    // it aside. As values of an option, an argument like [a,b] would become two: this option is for the help, and for
    // "--", and takes nothing.
    app.add_option("program", a.program, "The program, found by PATH; all behind it are its arguments")
        ->check([](const std::string&) { return std::string("not here"); })
        ->type_name("PROGRAM");
    app.validate_positionals();
    app.prefix_command();
    a.app = &app;
}

command_line::subcommand profile_command() {
    const auto a = std::make_shared<arguments>();
    return {"profile", "Run a CUDA program and show its kernels and the movement of its memory", "Measurements",
            [a](CLI::App& app) { declare(app, *a); }, [a] { return run(*a); }};
}

const command_line::registrar profile_command_registered{profile_command};

}  // namespace
}  // namespace orchard::profiling
