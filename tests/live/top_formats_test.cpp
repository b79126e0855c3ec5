// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.
#include <arpa/inet.h>
#include <gmock/gmock.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include <regex>
#include <thread>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "profiling/top/exporter.hpp"
#include "profiling/top/formats.hpp"
#include "profiling/top/screen.hpp"
#include "runtime/heap/live_fields.hpp"
#include "tests/live/pages.hpp"

namespace orchard::top {
namespace {

using testing::AllOf;
using testing::Contains;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::Not;

/// What a heap's page says in the state `s`.
live::snapshot snapshot_of(const live_state& s, pid_t pid = 4711) {
    auto made = live::parse(live_test::page_words(live_table(), live_words(s)));
    EXPECT_TRUE(made.ok()) << made.status();
    made->name = {pid, 2};
    made->heartbeat_ns = 9'000'000'000;
    return *std::move(made);
}

constexpr std::uint64_t now_ns = 10'000'000'000;

/// Returns a histogram of the values. It lives as long as the process.
const power_histogram* histogram_of(std::initializer_list<std::uint64_t> values) {
    auto* made = new power_histogram;
    for (const std::uint64_t n : values) {
        made->note(n);
    }
    return made;
}

live_state busy_state() {
    static const power_histogram* const depth = histogram_of({1, 1, 1, 3, 200});
    static const power_histogram* const commits = histogram_of({3'000'000, 3'500'000});
    live_state s;
    s.program = "a \"program\"";
    s.device = "cuda";
    s.gpu = "0";
    s.gpu_name = "NVIDIA H200";
    s.gpu_uuid = "GPU-1234";
    s.backing = "elastic";
    s.device_budget_bytes = 1 << 30;
    s.host_budget_bytes = 1 << 28;
    s.started_ns = 4'000'000'000;
    s.device_read_ns = 9'500'000'000;
    s.device_read_cost_ns = 1'500'000;
    s.counts.committed_bytes = 64 << 20;
    s.counts.capacity_bytes = 1 << 30;
    s.counts.segments_granted = 16;
    s.counts.grants = 100;
    s.counts.classes[3] = {64, 2, 100, 900, 500, 0, 20, 3};
    s.failures[4] = device::recorded_failure{12, failure_reason::too_large, 4096, chunk_class, {3, 7, 32, 8}, 77};
    s.failed_commits = 2;
    s.counts.requests_parked = 7;
    s.counts.moved_to_device_bytes = 4 << 20;
    s.counts.moved_to_host_bytes = 2 << 20;
    s.queue_depth = depth;
    s.commit_ns = commits;
    return s;
}

TEST(top_percentile, is_the_end_of_the_bucket) {
    EXPECT_EQ(percentile(std::vector<std::uint64_t>{}, 0.5), 0u);
    EXPECT_EQ(percentile(std::vector<std::uint64_t>{0, 0, 0, 0}, 0.5), 0u);
    EXPECT_EQ(percentile(std::vector<std::uint64_t>{0, 99, 0, 1, 999}, 0.5), 1u);
    EXPECT_EQ(percentile(std::vector<std::uint64_t>{0, 99, 0, 1, 999}, 0.99), 1u);
    EXPECT_EQ(percentile(std::vector<std::uint64_t>{0, 98, 0, 2, 999}, 0.99), 7u);
}

TEST(top_prometheus, has_one_head_for_each_metric_and_labels_for_each_heap) {
    const std::vector<live::snapshot> heaps = {snapshot_of(busy_state()), snapshot_of({}, 5000)};
    const std::string text = to_prometheus(heaps, now_ns);
    const std::vector<std::string> lines = absl::StrSplit(text, '\n', absl::SkipEmpty());
    EXPECT_THAT(
        lines,
        AllOf(Contains("orchard_heap_committed_bytes{gpu=\"0\",uuid=\"GPU-1234\",pid=\"4711\",heap=\"2\"} "
                       "67108864"),
              Contains("orchard_heap_committed_bytes{gpu=\"\",uuid=\"\",pid=\"5000\",heap=\"2\"} 0"),
              Contains("# TYPE orchard_heap_committed_bytes gauge").Times(1),
              Contains("# HELP orchard_heap_committed_bytes physical memory behind the super chunk now").Times(1),
              Contains("# TYPE orchard_heap_grants_total counter").Times(1),
              Contains(HasSubstr("orchard_heap_class_pages_in_use{")).Times(1),
              Contains(HasSubstr(",class=\"64\"} 100")).Times(1),
              Contains(HasSubstr("orchard_heap_failures_total{")).Times(1),
              Contains(HasSubstr(",reason=\"too_large\"} 12")).Times(1),
              Contains(HasSubstr(",program=\"a \\\"program\\\"\"")).Times(1),
              Contains(AllOf(HasSubstr("orchard_heap_info{"),
                             HasSubstr(absl::StrCat(",statistics_version=\"", statistics::version, "\""))))
                  .Times(2),
              Contains("# TYPE orchard_heap_queue_depth histogram").Times(1)));
    // Buckets count everything up to their end.
    std::vector<std::string> buckets;
    for (const std::string& line : lines) {
        if (line.starts_with("orchard_heap_queue_depth") && line.find("4711") != std::string::npos) {
            buckets.push_back(line.substr(0, 24) + line.substr(line.find("heap=\"2\"")));
        }
    }
    EXPECT_THAT(buckets, AllOf(Contains(HasSubstr("le=\"1\"} 3")), Contains(HasSubstr("le=\"3\"} 4")),
                               Contains(HasSubstr("le=\"255\"} 5")), Contains(HasSubstr("le=\"+Inf\"} 5")),
                               Contains(HasSubstr("heap=\"2\"} 206")), Contains(HasSubstr("heap=\"2\"} 5"))));
    // The format, line by line; all samples of a metric stand together.
    const std::regex head(R"(# (HELP|TYPE) orchard_heap_[a-z0-9_]+ .+)");
    const std::regex sample(
        R"re(orchard_heap_[a-z0-9_]+\{[a-z_]+="([^"\\]|\\.)*"(,[a-z_]+="([^"\\]|\\.)*")*\} [0-9]+)re");
    for (const std::string& line : lines) {
        EXPECT_TRUE(std::regex_match(line, line.front() == '#' ? head : sample)) << line;
    }
}

TEST(top_json, has_every_field) {
    const nlohmann::ordered_json json = to_json(snapshot_of(busy_state()), now_ns);
    EXPECT_EQ(json.at("pid"), 4711);
    EXPECT_EQ(json.at("age_ns"), 1'000'000'000);
    EXPECT_EQ(json.at("gpu_name"), "NVIDIA H200");
    EXPECT_EQ(json.at("class_pages_in_use"), (nlohmann::ordered_json{{"64", 100}}));
    EXPECT_EQ(json.at("failures"), (nlohmann::ordered_json{{"too_large", 12}}));
    EXPECT_EQ(json.at("queue_depth"),
              (nlohmann::ordered_json{{"count", 5}, {"sum", 206}, {"buckets", {{"1", 3}, {"3", 1}, {"255", 1}}}}));
    for (const statistic_info& info : statistic_table()) {
        EXPECT_TRUE(json.contains(std::string(info.name))) << info.name;
    }
}

TEST(top_text, has_lines_and_tables_of_what_is_not_zero) {
    const std::string text = to_text(snapshot_of(busy_state()), now_ns);
    EXPECT_THAT(text, HasSubstr(absl::StrCat("process 4711, heap 2; statistics of version ", statistics::version,
                                             "; the page is of 1.0 s ago\n")));
    EXPECT_THAT(text, HasSubstr("67108864 (64 MiB)"));
    EXPECT_THAT(text, HasSubstr("50 % up to 1, 99 % up to 255, 5 in all"));
    EXPECT_THAT(text, testing::ContainsRegex("\nclass +class_slabs"));
    EXPECT_THAT(text, testing::ContainsRegex("\n +64 +2 +100 +900"));
    EXPECT_THAT(text, testing::ContainsRegex("\ntoo_large +12 +4096|\n +too_large +12 +4096"));
    EXPECT_THAT(to_text(snapshot_of({}), now_ns), Not(HasSubstr("class_slabs")));
}

TEST(top_bar, fills_with_use_and_half_with_what_is_committed) {
    EXPECT_EQ(bar(0, 0, 0, 4, false), "[    ]");
    EXPECT_EQ(bar(1, 2, 4, 4, false), "[#-  ]");
    EXPECT_EQ(bar(9, 9, 4, 4, false), "[####]");
    EXPECT_EQ(bar(1, 1, 1000, 4, false), "[#   ]") << "something is not nothing";
    EXPECT_EQ(bar(1, 2, 4, 4, true), "[█░  ]");
}

TEST(top_sparkline, is_as_high_as_its_greatest_value) {
    EXPECT_EQ(sparkline({}, 3, false), "   ");
    EXPECT_EQ(sparkline({0, 0}, 3, false), "   ");
    EXPECT_EQ(sparkline({1, 2, 8}, 4, false), " .:#");
    EXPECT_EQ(sparkline({5, 1, 2, 8}, 3, false), ".:#");
    EXPECT_EQ(sparkline({0.001, 8}, 2, true), "▁█");
}

TEST(top_time, has_three_digits) {
    EXPECT_EQ(short_time(0), "0 ns");
    EXPECT_EQ(short_time(999), "999 ns");
    EXPECT_EQ(short_time(1023), "1.02 us");
    EXPECT_EQ(short_time(8'388'607), "8.39 ms");
    EXPECT_EQ(short_time(5'000'000'000), "5 s");
}

history seen_for(int seconds) {
    history seen;
    live_state s = busy_state();
    for (int i = 0; i <= seconds; ++i) {
        s.counts.grants = 100 + 10u * static_cast<unsigned>(i);
        s.counts.host_requests = 120 + 25u * static_cast<unsigned>(i);
        s.counts.committed_bytes = (64u + static_cast<unsigned>(i)) << 20;
        s.counts.released_bytes = (std::uint64_t{3} * static_cast<unsigned>(i)) << 20;
        seen.add(now_ns + static_cast<std::uint64_t>(i) * 1'000'000'000, snapshot_of(s));
    }
    return seen;
}

TEST(top_history, has_rates_and_seconds) {
    const history seen = seen_for(5);
    EXPECT_DOUBLE_EQ(seen.rate("grants"), 10);
    EXPECT_THAT(seen.by_second("grants", true), ElementsAre(10, 10, 10, 10, 10));
    EXPECT_EQ(seen.by_second("committed_bytes", false).size(), 6u);
    EXPECT_EQ(seen_for(200).by_second("committed_bytes", false).size(), 60u);
    EXPECT_DOUBLE_EQ(seen_for(0).rate("grants"), 0);
    EXPECT_THAT(seen_for(0).by_second("grants", true), testing::IsEmpty());
    // A counter that went back, as in a page of another heap, is no negative rate.
    history back = seen_for(3);
    back.add(now_ns + 4'000'000'000, snapshot_of({}));
    EXPECT_DOUBLE_EQ(back.rate("grants"), 0);
}

TEST(top_screen, fits_every_terminal) {
    const history seen = seen_for(5);
    for (int columns = 1; columns < 200; columns += 7) {
        for (int rows = 1; rows < 60; rows += 3) {
            const auto lines = screen(seen, columns, rows, false);
            ASSERT_LE(lines.size(), static_cast<std::size_t>(rows));
            for (const std::string& line : lines) {
                ASSERT_LE(line.size(), static_cast<std::size_t>(columns)) << line;
            }
        }
    }
    EXPECT_THAT(screen(seen, 59, 30, false), ElementsAre(HasSubstr("too small: 59 x 30; orchard top needs 60 x 12")));
    EXPECT_EQ(screen(seen, 60, 12, false).size(), 12u);
}

TEST(top_screen, shows_each_part) {
    const auto lines = screen(seen_for(5), 110, 30, true);
    // Sparklines of a minute, of which five seconds were seen: six samples, and five differences.
    EXPECT_THAT(lines, AllOf(Contains("committed, 1 min    " + std::string(54, ' ') + "██████"),
                             Contains("grants, 1 min       " + std::string(55, ' ') + "█████"),
                             Contains("growth    commits 4.19 ms, 2 failed; 7 waits; 3 MiB/s released; moved 4 MiB in, "
                                      "2 MiB out")));
    EXPECT_THAT(
        lines,
        AllOf(Contains(HasSubstr("process 4711 (a \"program\"), heap 2   GPU 0, NVIDIA H200   elastic")),
              Contains(HasSubstr("no sign of life for 6 s")), Contains(HasSubstr("32 MiB in use, 69 MiB of 1 GiB")),
              Contains(HasSubstr("of 256 MiB")), Contains(HasSubstr("mailbox   25 requests/s, 10 grants/s; answers")),
              Contains(HasSubstr("    64 B       2")),
              Contains(HasSubstr("too_large: 12 requests, the newest of 4 KiB")), Contains(HasSubstr("q: quit"))));
}

TEST(top_screen, marks_use_by_tier_as_a_guess_while_memory_is_on_the_host) {
    live_state s = busy_state();
    s.counts.host_bytes = 40 << 20;
    history seen;
    seen.add(now_ns, snapshot_of(s));
    EXPECT_THAT(screen(seen, 110, 30, true),
                AllOf(Contains(AllOf(HasSubstr("device  ["), HasSubstr("] ~24 MiB in use, 24 MiB of 1 GiB"))),
                      Contains(AllOf(HasSubstr("host    ["), HasSubstr("] ~8 MiB in use, 40 MiB of 256 MiB")))));
    EXPECT_THAT(screen(seen_for(0), 110, 30, true), Not(Contains(HasSubstr("~"))));
}

TEST(top_screen, says_how_many_classes_did_not_fit) {
    live_state s = busy_state();
    for (class_statistics& c : s.counts.classes) {
        c.slabs = 1;
        c.pages_in_use = 5;
    }
    s.counts.classes.back().slabs = 2;
    history seen;
    seen.add(now_ns, snapshot_of(s));
    const auto lines = screen(seen, 80, 24, false);
    EXPECT_EQ(lines.size(), 24u);
    EXPECT_THAT(lines, Contains(HasSubstr("more classes")));
    EXPECT_THAT(lines, Contains(HasSubstr("524288 B"))) << "it has the most slabs";
}

/// Sends a request to the port, and returns the answer.
std::string get(std::uint16_t port) {
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_port = htons(port);
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    const int fd = ::socket(AF_INET, SOCK_STREAM, 0);
    if (!live_test::eventually(
            [&] { return ::connect(fd, reinterpret_cast<sockaddr*>(&address), sizeof(address)) == 0; })) {
        return "";
    }
    const std::string asked = "GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n";
    EXPECT_EQ(::send(fd, asked.data(), asked.size(), 0), static_cast<ssize_t>(asked.size()));
    std::string all;
    char some[512];
    for (ssize_t n = 0; (n = ::recv(fd, some, sizeof(some), 0)) > 0;) {
        all.append(some, static_cast<std::size_t>(n));
    }
    ::close(fd);
    return all;
}

TEST(top_exporter, answers_requests) {
    // A port that was free a moment ago.
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    socklen_t length = sizeof(address);
    const int fd = ::socket(AF_INET, SOCK_STREAM, 0);
    ASSERT_EQ(::bind(fd, reinterpret_cast<sockaddr*>(&address), length), 0);
    ASSERT_EQ(::getsockname(fd, reinterpret_cast<sockaddr*>(&address), &length), 0);
    const std::uint16_t port = ntohs(address.sin_port);
    EXPECT_EQ(serve(
                  port, [] { return std::string(); }, 1)
                  .code(),
              absl::StatusCode::kUnavailable)
        << "it is taken";
    ::close(fd);
    absl::Status served;
    std::thread server([&] {
        served = serve(
            port, [] { return std::string("a_metric 1\n"); }, 2);
    });
    for (int i = 0; i < 2; ++i) {
        const std::string answer = get(port);
        EXPECT_THAT(answer, HasSubstr("HTTP/1.1 200 OK\r\n"));
        EXPECT_THAT(answer, HasSubstr("\r\n\r\na_metric 1\n"));
    }
    server.join();
    EXPECT_TRUE(served.ok()) << served;
}

}  // namespace
}  // namespace orchard::top
