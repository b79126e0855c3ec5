// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.
#include <gmock/gmock.h>
#include <poll.h>
#include <pty.h>
#include <sys/ioctl.h>

#include <cstdlib>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <regex>

#include "absl/strings/str_cat.h"
#include "device/simt/launch.cuh"
#include "runtime/cli/command_line.hpp"
#include "runtime/cli/map/read_map.hpp"
#include "runtime/trace/trace_reader.hpp"
#include "tests/live/pages.hpp"

namespace orchard::top {
namespace {

using live_test::child_process;
using live_test::own_heaps;
using live_test::pages_of;
using testing::HasSubstr;

struct outcome {
    int code;
    std::string out;
    std::string err;
};

int run_words(const std::vector<std::string>& words) {
    std::vector<const char*> argv = {"orchard", "top"};
    for (const std::string& word : words) {
        argv.push_back(word.c_str());
    }
    return command_line::run(static_cast<int>(argv.size()), argv.data(), "0123abc");
}

outcome top(const std::vector<std::string>& words) {
    testing::internal::CaptureStdout();
    testing::internal::CaptureStderr();
    const int code = run_words(words);
    std::string out = testing::internal::GetCapturedStdout();
    return {code, std::move(out), testing::internal::GetCapturedStderr()};
}

class top_command : public testing::Test {
protected:
    void SetUp() override { ASSERT_TRUE(owner_.is_ready()); }
    [[nodiscard]] std::vector<std::string> of_owner(std::vector<std::string> more) const {
        more.insert(more.begin(), {"--pid", std::to_string(owner_.pid())});
        return more;
    }

    testing_support::clean_environment environment_;
    child_process owner_{[](const auto& ready) { return own_heaps(1, ready); }};
};

TEST_F(top_command, prints_once) {
    const outcome result = top(of_owner({"--once"}));
    EXPECT_EQ(result.code, 0) << result.err;
    EXPECT_THAT(result.out, HasSubstr("process " + std::to_string(owner_.pid()) + ", heap"));
    EXPECT_THAT(result.out, testing::ContainsRegex("\ncapacity_bytes +67108864 \\(64 MiB\\)"));
    EXPECT_THAT(result.out, testing::ContainsRegex("\ndevice_read_ns +[1-9]"));
}

TEST_F(top_command, writes_json_and_prometheus) {
    const outcome json = top(of_owner({"--json"}));
    EXPECT_EQ(json.code, 0) << json.err;
    const auto document = nlohmann::ordered_json::parse(json.out);
    ASSERT_EQ(document.at("heaps").size(), 1u);
    EXPECT_EQ(document.at("heaps")[0].at("pid"), owner_.pid());
    EXPECT_EQ(document.at("heaps")[0].at("capacity_bytes"), 64 << 20);
    const outcome text = top(of_owner({"--prometheus"}));
    EXPECT_EQ(text.code, 0) << text.err;
    EXPECT_THAT(text.out, HasSubstr("orchard_heap_committed_bytes{gpu=\"emulated\",uuid=\"\",pid=\"" +
                                    std::to_string(owner_.pid()) + "\",heap=\""));
}

TEST_F(top_command, lists_and_picks_heaps) {
    EXPECT_THAT(top({"--list"}).out, HasSubstr("--pid " + std::to_string(owner_.pid()) + " --heap"));
    child_process two([](const auto& ready) { return own_heaps(2, ready); });
    ASSERT_TRUE(two.is_ready());
    const auto names = pages_of(two.pid());
    ASSERT_EQ(names.size(), 2u);
    const std::string pid = std::to_string(two.pid());
    const outcome several = top({"--pid", pid, "--send", "trim"});
    EXPECT_EQ(several.code, 2);
    EXPECT_THAT(several.err, HasSubstr("there are 2 heaps; give --pid and --heap: --pid " + pid));
    EXPECT_EQ(top({"--pid", pid, "--heap", std::to_string(names[1].heap), "--send", "trim"}).out,
              "0 B given back, 0 B committed now\n");
    EXPECT_EQ(nlohmann::ordered_json::parse(top({"--pid", pid, "--json"}).out).at("heaps").size(), 2u);
}

/// Returns how often `what` is in the text.
std::size_t times(const std::string& text, const std::string& what) {
    std::size_t n = 0;
    for (std::size_t at = text.find(what); at != std::string::npos; at = text.find(what, at + what.size())) {
        ++n;
    }
    return n;
}

TEST_F(top_command, reports_twenty_heaps_of_one_process) {
    constexpr std::size_t many = 20;
    child_process owner([](const auto& ready) { return own_heaps(many, ready); });
    ASSERT_TRUE(owner.is_ready());
    const auto names = pages_of(owner.pid());
    ASSERT_EQ(names.size(), many);
    const std::string pid = std::to_string(owner.pid());
    const outcome list = top({"--pid", pid, "--list"});
    const outcome json = top({"--pid", pid, "--json"});
    const outcome text = top({"--pid", pid, "--prometheus"});
    for (const outcome& one : {list, json, text}) {
        EXPECT_EQ(one.code, 0);
        EXPECT_EQ(one.err, "");
    }
    EXPECT_EQ(std::ranges::count(list.out, '\n'), static_cast<std::ptrdiff_t>(many)) << list.out;
    EXPECT_EQ(times(text.out, "\norchard_heap_committed_bytes{"), many);
    EXPECT_EQ(times(text.out, "# TYPE orchard_heap_committed_bytes gauge\n"), 1u);
    std::vector<std::uint32_t> heaps;
    const auto document = nlohmann::ordered_json::parse(json.out);
    for (const auto& heap : document.at("heaps")) {
        EXPECT_EQ(heap.at("pid"), owner.pid());
        heaps.push_back(heap.at("heap").get<std::uint32_t>());
    }
    EXPECT_EQ(heaps.size(), many);
    for (const auto& name : names) {
        const std::string number = std::to_string(name.heap);
        EXPECT_EQ(times(list.out, "--pid " + pid + " --heap " + number + "   "), 1u) << list.out;
        EXPECT_EQ(times(text.out, "\norchard_heap_committed_bytes{gpu=\"emulated\",uuid=\"\",pid=\"" + pid +
                                      "\",heap=\"" + number + "\"} 0\n"),
                  1u);
        EXPECT_EQ(std::ranges::count(heaps, name.heap), 1);
    }
    EXPECT_EQ(owner.kill(SIGTERM), 0);
}

TEST_F(top_command, sends_commands) {
    EXPECT_EQ(top(of_owner({"--send", "reserve=32MiB"})).out, "32 MiB committed now\n");
    EXPECT_EQ(top(of_owner({"--send", "trim"})).out, "32 MiB given back, 0 B committed now\n");
    EXPECT_EQ(top(of_owner({"--send", "budget=16MiB"})).out, "the device's budget is 16 MiB, 0 B committed now\n");
    EXPECT_NE(top(of_owner({"--send", "reserve=32MiB"})).code, 0);
    EXPECT_THAT(top(of_owner({"--once"})).out, testing::ContainsRegex("\ndevice_budget_bytes +16777216 "));
    const outcome refused = top(of_owner({"--send", "budget=1GiB"}));
    EXPECT_NE(refused.code, 0);
    EXPECT_THAT(refused.err, HasSubstr("cannot be 1 GiB"));
}

TEST_F(top_command, sends_validate) {
    EXPECT_EQ(top(of_owner({"--send", "reserve=32MiB"})).code, 0);
    const outcome valid = top(of_owner({"--send", "validate"}));
    EXPECT_EQ(valid.code, 0) << valid.err;
    EXPECT_THAT(valid.out, HasSubstr("no fault found"));
}

TEST_F(top_command, sends_dump) {
    const std::string path = testing::TempDir() + absl::StrCat("sent_", ::getpid(), ".map.json");
    EXPECT_EQ(top(of_owner({"--send", "reserve=32MiB"})).code, 0);
    const outcome dumped = top(of_owner({"--send", "dump=" + path}));
    EXPECT_EQ(dumped.code, 0) << dumped.err;
    EXPECT_EQ(dumped.out, "written to " + path + "\n");
    const auto map = command_line::read_map(path);
    std::filesystem::remove(path);
    ASSERT_TRUE(map.ok()) << map.status();
    EXPECT_EQ(map->pid, owner_.pid());
    const outcome failed = top(of_owner({"--send", "dump=/no such folder/x"}));
    EXPECT_EQ(failed.code, 2);
    EXPECT_THAT(failed.err, HasSubstr("/no such folder/x"));
}

TEST_F(top_command, starts_and_stops_a_trace) {
    const std::string path = testing::TempDir() + absl::StrCat("started_", ::getpid(), ".trace");
    EXPECT_THAT(top(of_owner({"--send", "trace_stop"})).err, HasSubstr("no trace was started"));
    EXPECT_EQ(top(of_owner({"--send", "trace_start=" + path})).out, "a trace is being written to " + path + "\n");
    EXPECT_THAT(top(of_owner({"--send", "trace_start=" + path})).err, HasSubstr("send trace_stop first"));
    EXPECT_EQ(top(of_owner({"--send", "reserve=32MiB"})).code, 0);
    EXPECT_EQ(top(of_owner({"--send", "trim"})).code, 0);
    EXPECT_THAT(top(of_owner({"--send", "trace_stop"})).out, HasSubstr(" events written to " + path + ", 0 lost\n"));
    const auto trace = load_trace(path);
    ASSERT_TRUE(trace.ok()) << trace.status();
    EXPECT_EQ(trace->summary.info.mode, event_mode::sampled) << "its beginning is missing";
    EXPECT_EQ(trace->summary.counts.waits, trace_waits{});
    const auto bytes_of = [&](event_kind kind) {
        std::uint64_t bytes = 0;
        for (const event& e : trace->events) {
            bytes += e.kind == kind ? e.bytes : 0;
        }
        return bytes;
    };
    EXPECT_EQ(bytes_of(event_kind::commit), 32u << 20);
    EXPECT_EQ(bytes_of(event_kind::decommit), 32u << 20);
    EXPECT_EQ(top(of_owner({"--send", "trace_start=/no such folder/x"})).code, 2);
    ::unlink(path.c_str());
}

TEST_F(top_command, refuses_what_makes_no_sense) {
    for (const std::vector<std::string>& words : {std::vector<std::string>{"--send", "nonsense"},
                                                  {"--send", "reserve"},
                                                  {"--send", "reserve=many"},
                                                  {"--send", "trim=1"},
                                                  {"--send", "dump"},
                                                  {"--once", "--send", "trim"},
                                                  {"--list", "--prometheus"},
                                                  {"--interval", "0s"},
                                                  {"--interval", "x"},
                                                  {"--send", "trim", "--timeout", "-1s"},
                                                  {"--once", "--listen", "1"}}) {
        const outcome result = top(of_owner(words));
        EXPECT_EQ(result.code, 2) << words.back();
        EXPECT_EQ(result.out, "");
        EXPECT_EQ(std::ranges::count(result.err, '\n'), 1) << result.err;
    }
}

TEST_F(top_command, says_that_there_is_no_heap) {
    EXPECT_EQ(owner_.kill(SIGKILL), 255);
    for (const auto& words : {of_owner({"--once"}), of_owner({"--heap", "0", "--once"})}) {
        const outcome result = top(words);
        EXPECT_EQ(result.code, 2);
        EXPECT_THAT(result.err, HasSubstr("process " + std::to_string(owner_.pid())));
        EXPECT_THAT(result.err, HasSubstr("ORCHARD_LIVE_PAGE=1"));
    }
}

TEST_F(top_command, says_that_there_is_no_terminal) {
    // Standard output is captured, and thus a file.
    const outcome result = top(of_owner({}));
    EXPECT_EQ(result.code, 2);
    EXPECT_THAT(result.err, testing::AnyOf(HasSubstr("no terminal; give --once"), HasSubstr("has no ncurses")));
}

/// `orchard top` in a process of its own at a pseudo-terminal.
class top_terminal : public top_command {
protected:
    void SetUp() override {
        top_command::SetUp();
        if (top(of_owner({})).err.find("has no ncurses") != std::string::npos) {
            GTEST_SKIP() << "this build has no ncurses";
        }
    }
    void start(unsigned short rows, unsigned short columns, const std::vector<std::string>& words,
               const char* terminal = "xterm") {
        winsize size{rows, columns, 0, 0};
        pid_ = ::forkpty(&fd_, nullptr, nullptr, &size);
        ASSERT_GE(pid_, 0);
        if (pid_ == 0) {
            ::alarm(100);
            ::setenv("TERM", terminal, 1);
            ::setenv("LC_ALL", "C.UTF-8", 1);
            ::unsetenv("LINES");
            ::unsetenv("COLUMNS");
            ::_exit(run_words(words));
        }
    }
    void TearDown() override {
        if (pid_ > 0) {
            ::kill(pid_, SIGKILL);
            ::waitpid(pid_, nullptr, 0);
        }
        if (fd_ >= 0) {
            ::close(fd_);
        }
    }
    /// Reads until the text has come, for at most 60 s. The text before it is stored in `before`, or dropped.
    bool shows(const std::string& text, std::string* before = nullptr) {
        for (int i = 0; i < 600; ++i) {
            if (const std::size_t at = seen_.find(text); at != std::string::npos) {
                if (before != nullptr) {
                    *before = seen_.substr(0, at);
                }
                seen_.erase(0, at + text.size());
                return true;
            }
            pollfd ready{fd_, POLLIN, 0};
            if (::poll(&ready, 1, 100) == 1) {
                char some[4096];
                const ssize_t n = ::read(fd_, some, sizeof(some));
                if (n <= 0) {
                    break;
                }
                seen_.append(some, static_cast<std::size_t>(n));
            }
        }
        ADD_FAILURE() << "not seen: " << text << "; seen: " << testing::PrintToString(seen_);
        return false;
    }
    void resize(unsigned short rows, unsigned short columns) const {
        const winsize size{rows, columns, 0, 0};
        ASSERT_EQ(::ioctl(fd_, TIOCSWINSZ, &size), 0);  // the system sends SIGWINCH
    }
    void press(char key) const { ASSERT_EQ(::write(fd_, &key, 1), 1); }
    /// Waits for the end, and returns the exit code.
    int end() {
        int status = 0;
        while (::waitpid(pid_, &status, WNOHANG) == 0) {
            pollfd ready{fd_, POLLIN, 0};
            char some[4096];
            if (::poll(&ready, 1, 10) == 1) {
                (void)!::read(fd_, some, sizeof(some));
            }
        }
        pid_ = 0;
        return WIFEXITED(status) ? WEXITSTATUS(status) : 255;
    }

    int fd_ = -1;
    pid_t pid_ = 0;
    std::string seen_;
};

TEST_F(top_terminal, draws_resizes_and_quits) {
    start(24, 80, of_owner({"--interval", "50ms"}));
    ASSERT_TRUE(shows("process " + std::to_string(owner_.pid())));
    ASSERT_TRUE(shows("q: quit"));
    resize(5, 20);
    ASSERT_TRUE(shows("too small: 20 x 5"));
    resize(40, 120);
    ASSERT_TRUE(shows("grants/s"));
    ASSERT_TRUE(shows("q: quit"));
    press('x');  // no key of the screen's
    press('q');
    EXPECT_EQ(end(), 0);
}

/// Each thread takes a block, and keeps it.
struct take_one {
    heap_ref h;
    std::uint64_t bytes;
    ORCHARD_FN void operator()(simt::thread_position) const { (void)h.malloc(bytes); }
};

/// Each thread takes a block, and gives it back.
struct take_and_return {
    heap_ref h;
    std::uint64_t bytes;
    ORCHARD_FN void operator()(simt::thread_position) const { h.free(h.malloc(bytes)); }
};

/// Body of a child: a heap with blocks of two classes, memory on both tiers and a failed request, which takes and
/// returns memory until SIGTERM comes.
int own_busy_heap(const std::function<void()>& ready) {
    sigset_t end;
    ::sigemptyset(&end);
    ::sigaddset(&end, SIGTERM);
    ::sigprocmask(SIG_BLOCK, &end, nullptr);
    options o = live_test::small_heap();
    o.host_budget = 32 << 20;
    o.capacity = 32 << 20;
    o.cached_segments = 0;  // each large block is a request to the service
    auto made = heap::create(o);
    if (!made.ok() || !made->warnings().empty()) {
        return 3;
    }
    heap& h = *made;
    const auto run = [&](std::uint32_t threads, const auto& kernel) {
        return simt::launch(h.executor(), simt::grid{1, threads}, kernel).ok;
    };
    constexpr std::uint64_t large = 24 << 20;
    if (!run(32, take_one{h.ref(), 64}) || !run(32, take_one{h.ref(), 256}) || !run(1, take_one{h.ref(), large}) ||
        !run(1, take_one{h.ref(), 48 << 20})) {
        return 4;
    }
    ready();
    const timespec pause{0, 20'000'000};
    while (::sigtimedwait(&end, nullptr, &pause) != SIGTERM) {
        if (!run(1, take_and_return{h.ref(), 12 << 20})) {
            return 5;
        }
    }
    return 0;
}

/// Returns what a terminal was sent, with one blank for each row of blanks, ends of lines and control sequences.
std::string plain(const std::string& sent) {
    static const std::regex between("(\x1b\\[[0-9;?]*[A-Za-z]|\x1b[()].|[\\x01-\\x1f ])+");
    return std::regex_replace(sent, between, " ");
}

/// The screen of a busy heap.
class top_terminal_of_a_busy_heap : public top_terminal {
protected:
    void SetUp() override {
        top_terminal::SetUp();
        if (IsSkipped()) {
            return;
        }
        ASSERT_TRUE(busy_.is_ready());
        auto reader = live::live_reader::open(pages_of(busy_.pid()).front());
        ASSERT_TRUE(reader.ok()) << reader.status();
        // The device's counters are those of after the first blocks.
        ASSERT_TRUE(live_test::eventually([&] {
            reader->watch(absl::Seconds(60));
            const auto s = reader->read();
            return s.ok() && s->number("failed_allocations") != 0;
        }));
    }
    /// Draws the whole screen anew, as a new size demands it, and returns it as `plain` does.
    std::string drawn() {
        columns_ = columns_ == 120 ? 121 : 120;
        resize(30, columns_);
        std::string all;
        EXPECT_TRUE(shows("process " + std::to_string(busy_.pid())) && shows("q: quit", &all));
        return plain(all);
    }

    child_process busy_{own_busy_heap};
    unsigned short columns_ = 100;
};

TEST_F(top_terminal_of_a_busy_heap, shows_each_part) {
    start(30, columns_, {"--interval", "50ms", "--pid", std::to_string(busy_.pid())});
    ASSERT_TRUE(shows("q: quit"));
    // Rates and sparklines need two looks with some requests and a reading of the device between them.
    std::string text;
    const std::regex rates("mailbox [0-9.]*[1-9][0-9.k]* requests/s, [0-9.]*[1-9][0-9.k]* grants/s; answers");
    const std::regex grants("grants, 1 min [^a-z]*█[^a-z]*mailbox");
    ASSERT_TRUE(live_test::eventually([&] {
        text = drawn();
        return HasFailure() || (std::regex_search(text, rates) && std::regex_search(text, grants));
    })) << text;
    for (const char* part :
         {"device \\[█[█░]* ?\\] ~[0-9.]+ MiB in use, 32 MiB of 32 MiB",
          "host \\[[█░]+ ?\\] ~[0-9.]+ (MiB|B) in use, [0-9.]+ MiB of 32 MiB", "committed, 1 min [^a-z]*█[^a-z]*grants",
          "growth commits [1-9][0-9.]* [mun]?s, 0 failed; ", "kernels .* nulls so far", " 64 B 1 32 [0-9]+ \\[█",
          " 256 B 1 32 [0-9]+ \\[█", "failed [a-z_]+: 1 requests, the newest of 48 MiB"}) {
        EXPECT_TRUE(std::regex_search(text, std::regex(part))) << part << " is not in\n" << text;
    }
    press('q');
    EXPECT_EQ(end(), 0);
    EXPECT_EQ(busy_.kill(SIGTERM), 0);
}

TEST_F(top_terminal, redraws_between_two_looks) {
    start(24, 80, of_owner({"--interval", "1h"}));
    ASSERT_TRUE(shows("q: quit"));
    resize(6, 30);
    ASSERT_TRUE(shows("too small: 30 x 6"));
    press('q');
    EXPECT_EQ(end(), 0);
}

TEST_F(top_terminal, ends_with_the_heap) {
    start(24, 80, of_owner({"--interval", "20ms"}));
    ASSERT_TRUE(shows("q: quit"));
    owner_.kill(SIGKILL);
    ASSERT_TRUE(shows("the process has ended"));
    EXPECT_EQ(end(), 0);
}

TEST_F(top_terminal, that_is_not_known_is_an_error) {
    start(24, 80, of_owner({}), "no-such-terminal");
    ASSERT_TRUE(shows("TERM=no-such-terminal"));
    EXPECT_EQ(end(), 2);
}

}  // namespace
}  // namespace orchard::top
