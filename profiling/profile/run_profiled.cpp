// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.

/// Finds libraries and runs programs; run_profiled.hpp has the interface.

#include "profiling/profile/run_profiled.hpp"

#include <dlfcn.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <iterator>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "profiling/profile/record_format.hpp"

// Set by cmake/profile.cmake: whether the recorder is built, where it is installed, where CUPTI was found.
#ifndef ORCHARD_HAS_CUPTI
#define ORCHARD_HAS_CUPTI 0
#endif
#ifndef ORCHARD_PROFILE_INSTALLED
#define ORCHARD_PROFILE_INSTALLED "lib/orchard"
#endif
#ifndef ORCHARD_CUPTI_FOLDER
#define ORCHARD_CUPTI_FOLDER ""
#endif

namespace orchard::profiling {
namespace {

constexpr char recorder_name[] = "liborchard_profile.so";
constexpr char injection[] = "CUDA_INJECTION64_PATH";
// A library that stands in for CUPTI. Only the tests of this command set it.
constexpr char variable_test_cupti[] = "ORCHARD_PROFILE_TEST_CUPTI";

std::string variable(const char* name) {
    const char* value = std::getenv(name);
    return value == nullptr ? "" : value;
}

/// Returns the recorder: beside this program, above it (tests), or where it is installed.
absl::StatusOr<std::string> find_recorder() {
    std::error_code error;
    const std::filesystem::path here = std::filesystem::read_symlink("/proc/self/exe", error).parent_path();
    std::vector<std::string> searched;
    for (const std::filesystem::path& folder :
         {here, here.parent_path(), here.parent_path() / ORCHARD_PROFILE_INSTALLED}) {
        searched.push_back((folder / recorder_name).string());
        if (std::filesystem::exists(searched.back(), error)) {
            return searched.back();
        }
    }
    return absl::FailedPreconditionError(absl::StrCat(
        recorder_name, " is missing, which records in the program; searched: ", absl::StrJoin(searched, ", "),
        "; build the target orchard_profile, or install Orchard again"));
}

/// Returns CUPTI's library: of the toolkit that Orchard was built with, of one that a variable names, of the default
/// one, or one that the system's loader finds. All but the last are files.
absl::StatusOr<std::string> find_cupti() {
    if (const std::string stand_in = variable(variable_test_cupti); !stand_in.empty()) {
        return stand_in;
    }
    std::vector<std::string> folders{ORCHARD_CUPTI_FOLDER};
    for (const std::string& toolkit : {variable("CUDA_HOME"), variable("CUDA_PATH"), std::string("/usr/local/cuda")}) {
        for (const char* folder : {"/extras/CUPTI/lib64", "/lib64", "/lib"}) {
            folders.push_back(toolkit.empty() ? "" : toolkit + folder);
        }
    }
    std::error_code error;
    for (const std::string& folder : folders) {
        const std::string file = folder + "/libcupti.so";
        if (!folder.empty() && std::filesystem::exists(file, error)) {
            return file;
        }
    }
    if (void* found = ::dlopen("libcupti.so", RTLD_LAZY | RTLD_LOCAL)) {
        ::dlclose(found);
        return "libcupti.so";
    }
    return absl::FailedPreconditionError(
        "libcupti.so was not found: it is a part of the CUDA toolkit; install the toolkit (package cuda-cupti), set "
        "CUDA_HOME to its folder, or put the library's folder into LD_LIBRARY_PATH");
}

/// The environment of this process with some variables changed, as `posix_spawn` takes it.
class changed_environment {
public:
    void set(const std::string& name, const std::string& value) {
        const std::string begin = name + "=";
        std::erase_if(entries_, [&](const std::string& e) { return e.starts_with(begin); });
        entries_.push_back(begin + value);
    }
    std::vector<char*> pointers() {
        std::vector<char*> result;
        for (std::string& entry : entries_) {
            result.push_back(entry.data());
        }
        result.push_back(nullptr);
        return result;
    }

private:
    static std::vector<std::string> current() {
        std::vector<std::string> result;
        for (char** entry = environ; *entry != nullptr; ++entry) {
            result.emplace_back(*entry);
        }
        return result;
    }
    std::vector<std::string> entries_ = current();
};

// The program that a signal is passed on to; 0: it does not run yet, and the signal waits in `waiting`.
std::atomic<pid_t> running{0};
std::atomic<int> waiting{0};

void pass_on(int signal) {
    const pid_t program = running.load();
    if (program > 0) {
        ::kill(program, signal);
    } else {
        waiting.store(signal);
    }
}

/// Sets this process's answers to signals while the program runs, and sets them back. They are set before the program
/// starts, so that none is missed.
class signals_of_program {
public:
    signals_of_program() {
        running.store(0);
        waiting.store(0);
        for (std::size_t i = 0; i < std::size(numbers); ++i) {
            struct sigaction action = {};
            action.sa_handler = i < 2 ? SIG_IGN : pass_on;
            ::sigaction(numbers[i], &action, &before_[i]);
        }
    }
    signals_of_program(const signals_of_program&) = delete;
    signals_of_program& operator=(const signals_of_program&) = delete;
    ~signals_of_program() {
        for (std::size_t i = 0; i < std::size(numbers); ++i) {
            ::sigaction(numbers[i], &before_[i], nullptr);
        }
    }

    /// Returns those that the program gets with the default answer: all but those that this process was told to ignore.
    [[nodiscard]] sigset_t defaults() const {
        sigset_t set;
        ::sigemptyset(&set);
        for (std::size_t i = 0; i < std::size(numbers); ++i) {
            if (before_[i].sa_handler != SIG_IGN) {
                ::sigaddset(&set, numbers[i]);
            }
        }
        return set;
    }

    /// Passes signals on to `program` from now on, and the one that came before.
    static void follow(pid_t program) {
        running.store(program);
        if (const int signal = waiting.exchange(0); signal != 0) {
            ::kill(program, signal);
        }
    }

private:
    // The first two come from a terminal, to both processes.
    static constexpr int numbers[] = {SIGINT, SIGQUIT, SIGTERM, SIGHUP};
    struct sigaction before_[std::size(numbers)] = {};
};

/// Starts the program. Returns 0, or the system's error number.
int start(const profiled_run& run, changed_environment& environment, const sigset_t& defaults, pid_t& program) {
    std::vector<char*> words;
    for (const std::string& word : run.words) {
        words.push_back(const_cast<char*>(word.c_str()));  // posix_spawn does not write to them
    }
    words.push_back(nullptr);
    posix_spawn_file_actions_t actions;
    if (const int failed = ::posix_spawn_file_actions_init(&actions); failed != 0) {
        return failed;
    }
    posix_spawnattr_t attributes;
    int failed = ::posix_spawnattr_init(&attributes);
    if (failed != 0) {
        ::posix_spawn_file_actions_destroy(&actions);
        return failed;
    }
    failed = ::posix_spawnattr_setsigdefault(&attributes, &defaults);
    if (failed == 0) {
        failed = ::posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETSIGDEF);
    }
    if (failed == 0 && run.output_to_standard_error) {
        failed = ::posix_spawn_file_actions_adddup2(&actions, STDERR_FILENO, STDOUT_FILENO);
    }
    if (failed == 0) {
        failed = ::posix_spawnp(&program, words[0], &actions, &attributes, words.data(), environment.pointers().data());
    }
    ::posix_spawnattr_destroy(&attributes);
    ::posix_spawn_file_actions_destroy(&actions);
    return failed;
}

}  // namespace

absl::StatusOr<recording_libraries> find_libraries() {
    if (ORCHARD_HAS_CUPTI == 0) {
        return absl::FailedPreconditionError(
            "this orchard was built without CUPTI, whose header cupti.h is a part of the CUDA toolkit; build it where "
            "the toolkit is, or with -DORCHARD_CUPTI=ON, which says what is missing");
    }
    if (const std::string other = variable(injection); !other.empty()) {
        return absl::FailedPreconditionError(
            absl::StrCat(injection, " is set to ", other,
                         ": another tool, such as nsys or ncu, already records in the program; unset it, or use that "
                         "tool alone"));
    }
    const absl::StatusOr<std::string> recorder = find_recorder();
    const absl::StatusOr<std::string> cupti = find_cupti();
    if (!recorder.ok() || !cupti.ok()) {
        return recorder.ok() ? cupti.status() : recorder.status();
    }
    return recording_libraries{*recorder, *cupti};
}

absl::StatusOr<int> run_profiled(const profiled_run& run) {
    changed_environment environment;
    environment.set(injection, run.with.recorder);
    environment.set(variable_folder, run.folder);
    environment.set(variable_cupti, run.with.cupti);
    environment.set(variable_samples, run.samples ? "1" : "0");
    environment.set(variable_limit, absl::StrCat(run.limit));
    const signals_of_program answers;
    pid_t program = 0;
    if (const int failed = start(run, environment, answers.defaults(), program); failed != 0) {
        return absl::NotFoundError(absl::StrCat("cannot start ", run.words[0], ": ", std::strerror(failed)));
    }
    signals_of_program::follow(program);
    int status = 0;
    while (::waitpid(program, &status, 0) < 0) {
        if (errno != EINTR) {
            return absl::InternalError(absl::StrCat("cannot wait for ", run.words[0], ": ", std::strerror(errno)));
        }
    }
    running.store(0);  // its number may soon be another program's
    return WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
}

}  // namespace orchard::profiling
