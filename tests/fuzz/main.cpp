// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.

// Runs a fuzz target where there is no libFuzzer: first the files of its corpus, then mutations of them. A mutation
// depends on the corpus, the seed and its number alone, so that a failure is repeated by these.
//
//     fuzz_graph --seconds 5 --seed 7 tests/fuzz/corpus/graph
//
// An input that fails is written to a file beside the program, and the command that repeats it is printed. Exit code: 0
// no fault, 2 wrong arguments, otherwise as the fault ended the process.

#include <fcntl.h>
#include <signal.h>
#include <sys/resource.h>

#include <CLI/CLI.hpp>

#include <array>
#include <chrono>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <random>
#include <vector>

#include "tests/fuzz/target.hpp"

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#include <sanitizer/common_interface_defs.h>
#endif

namespace orchard::fuzz {
namespace {

namespace fs = std::filesystem;

/// The input that is being tried, for the handlers below, which may allocate nothing.
std::string current;
std::string failed_file;
std::string repeated_by;

void say(std::string_view text) { (void)!::write(STDERR_FILENO, text.data(), text.size()); }

/// Writes the current input to a file, and prints the command that tries it again.
void keep_input() {
    const int fd = ::open(failed_file.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
    const bool kept = fd >= 0 && ::write(fd, current.data(), current.size()) == static_cast<ssize_t>(current.size());
    say(kept ? "the input was written; repeat it with: " : "the input could not be written; repeat it with: ");
    say(repeated_by);
}

void end_by_signal(int signal) {
    say(signal == SIGALRM ? "fault: an input took too long\n" : "fault: a signal ended the run of an input\n");
    keep_input();
    ::signal(signal == SIGALRM ? SIGABRT : signal, SIG_DFL);
    ::raise(signal == SIGALRM ? SIGABRT : signal);
}

void install_handlers() {
    ::signal(SIGABRT, end_by_signal);
    ::signal(SIGALRM, end_by_signal);
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
    __sanitizer_set_death_callback(keep_input);
#else
    for (const int s : {SIGSEGV, SIGBUS, SIGILL, SIGFPE}) {
        ::signal(s, end_by_signal);
    }
#endif
}

struct settings {
    std::uint64_t runs = 0;
    double seconds = 0;
    std::uint64_t seed = 1;
    std::uint64_t first = 0;
    std::size_t max_bytes = 4096;
    unsigned timeout = 120;
    std::uint64_t memory_mib = 2048;
    std::vector<std::string> corpus;
};

/// Tries one input, within the limits of time and memory.
void run(std::string input, const settings& how) {
    current = std::move(input);
    ::alarm(how.timeout);
    LLVMFuzzerTestOneInput(reinterpret_cast<const std::uint8_t*>(current.data()), current.size());
    ::alarm(0);
    rusage used{};
    ::getrusage(RUSAGE_SELF, &used);
    const auto mib = static_cast<std::uint64_t>(used.ru_maxrss) >> 10;
    expect(mib <= how.memory_mib, absl::StrCat("an input took the process to ", mib, " MiB; the limit is ",
                                               how.memory_mib, " MiB (--memory)"));
}

/// Returns `files` and the files of the folders among them, sorted by path.
std::vector<fs::path> files_of(const std::vector<std::string>& files) {
    std::vector<fs::path> all;
    for (const std::string& name : files) {
        if (!fs::is_directory(name)) {
            all.emplace_back(name);
            continue;
        }
        for (const fs::directory_entry& entry : fs::recursive_directory_iterator(name)) {
            if (entry.is_regular_file()) {
                all.push_back(entry.path());
            }
        }
    }
    std::sort(all.begin(), all.end());
    return all;
}

std::string content_of(const fs::path& file) {
    std::ifstream in(file, std::ios::binary);
    return {std::istreambuf_iterator<char>(in), {}};
}

/// Changes inputs at random.
class mutator {
public:
    mutator(const std::vector<std::string>& corpus, const settings& how, std::uint64_t number)
        : corpus_{corpus}, most_{how.max_bytes}, random_{how.seed * 0x9e3779b97f4a7c15 + number} {}

    /// Returns an input of the corpus with 1 to 8 changes.
    std::string make() {
        std::string input = corpus_[below(corpus_.size())];
        for (std::size_t left = 1 + below(8); left != 0; --left) {
            change(input);
        }
        input.resize(std::min(input.size(), std::max(most_, std::size_t{1})));
        return input;
    }

private:
    std::size_t below(std::size_t n) { return n == 0 ? 0 : random_() % n; }
    char any_byte() { return static_cast<char>(random_()); }

    void change(std::string& input) {
        const std::size_t at = below(input.size() + 1);
        switch (below(7)) {
            case 0: input.insert(at, 1, any_byte()); return;
            case 1: input.erase(at, 1 + below(16)); return;
            case 2: input.insert(at, input, below(input.size() + 1), 1 + below(64)); return;  // a part once more
            case 3: splice(input, at); return;
            case 4: insert_number(input, at); return;
            default: break;
        }
        if (at < input.size()) {
            input[at] = below(2) == 0 ? any_byte() : static_cast<char>(input[at] ^ (1 << below(8)));
        }
    }
    /// Inserts a part of another input, or puts it in the place of the rest.
    void splice(std::string& input, std::size_t at) {
        const std::string& other = corpus_[below(corpus_.size())];
        const std::size_t from = below(other.size() + 1);
        if (below(2) == 0) {
            input.resize(at);
            input += other.substr(from);
        } else {
            input.insert(at, other, from, 1 + below(64));
        }
    }
    void insert_number(std::string& input, std::size_t at) {
        static constexpr std::array numbers{
            "0",          "-1",    "65536", "2147483648",           "4294967295",
            "4294967296", "1e308", "0x10",  "18446744073709551615", "18446744073709551616"};
        input.insert(at, numbers[below(numbers.size())]);
    }

    const std::vector<std::string>& corpus_;
    std::size_t most_;
    std::mt19937_64 random_;
};

int fuzz(const settings& how) {
    const fs::path path = fs::read_symlink("/proc/self/exe");
    const std::string& program = path.native();
    failed_file = (path.parent_path() / ("fault-" + path.filename().string())).string();
    install_handlers();
    std::vector<std::string> corpus;
    for (const fs::path& file : files_of(how.corpus)) {
        repeated_by = absl::StrCat(program, " ", file.string(), "\n");
        corpus.push_back(content_of(file));
        run(corpus.back(), how);
    }
    if (corpus.empty()) {
        std::fprintf(stderr, "%s: no file of a corpus; name files or folders\n", program.c_str());
        return 2;
    }
    std::printf("%s: %zu files; mutations of seed %llu\n", program.c_str(), corpus.size(),
                static_cast<unsigned long long>(how.seed));
    std::fflush(stdout);
    const auto end = std::chrono::steady_clock::now() + std::chrono::duration<double>(how.seconds);
    std::uint64_t number = how.first;
    while (number - how.first < how.runs || std::chrono::steady_clock::now() < end) {
        repeated_by = absl::StrCat(program, " ", failed_file, "\n(mutation ", number, " of seed ", how.seed, ")\n");
        run(mutator(corpus, how, number).make(), how);
        ++number;
    }
    std::printf("%llu mutations: no fault\n", static_cast<unsigned long long>(number - how.first));
    return 0;
}

}  // namespace
}  // namespace orchard::fuzz

int main(int argc, char** argv) {
    orchard::fuzz::settings how;
    CLI::App app{"Tries the files of a corpus, and mutations of them"};
    app.add_option("corpus", how.corpus, "Files, and folders of files")->required()->check(CLI::ExistingPath);
    app.add_option("--runs", how.runs, "Mutations to try at the least");
    app.add_option("--seconds", how.seconds, "Try mutations for so long at the least");
    app.add_option("--seed", how.seed, "Seed of the mutations");
    app.add_option("--first", how.first, "Number of the first mutation");
    app.add_option("--max-bytes", how.max_bytes, "Longest mutation, in bytes");
    app.add_option("--timeout", how.timeout, "An input that takes so many seconds is a fault");
    app.add_option("--memory", how.memory_mib, "A process of more memory (MiB) is a fault");
    try {
        app.parse(argc, argv);
    } catch (const CLI::ParseError& error) {
        return app.exit(error) == 0 ? 0 : 2;
    }
    return orchard::fuzz::fuzz(how);
}
