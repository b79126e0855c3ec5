// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.
#include <gmock/gmock.h>
#include <sys/stat.h>

#include <atomic>
#include <thread>

#include "tests/live/pages.hpp"

namespace orchard::live {
namespace {

using live_test::page_file;
using live_test::page_words;
using testing::HasSubstr;

constexpr std::uint32_t number = 4'000'000'001u;

std::vector<field_description> numbers(std::uint32_t count) {
    return {{"many", "count", "", "numbers", field_kind::gauge, count}};
}

/// A process number that no process has.
constexpr pid_t nobody = 0x7ffffff0;

TEST(live_page, is_readable_by_its_user_alone_and_ends_with_its_owner) {
    page_name name;
    {
        auto page = live_page::create(number, numbers(3));
        ASSERT_TRUE(page.ok()) << page.status();
        name = (*page)->name();
        struct stat about {};
        ASSERT_EQ(::stat(("/dev/shm/" + name.text()).c_str(), &about), 0);
        EXPECT_EQ(about.st_mode & 0777u, 0600u);
        (*page)->publish(std::vector<std::uint64_t>{1, 2, 3});
        auto reader = live_reader::open(name);
        ASSERT_TRUE(reader.ok()) << reader.status();
        const auto s = reader->read();
        ASSERT_TRUE(s.ok()) << s.status();
        EXPECT_THAT(s->find("many")->values, testing::ElementsAre(1, 2, 3));
        page->reset();
        EXPECT_EQ(reader->read().status().code(), absl::StatusCode::kNotFound);
        EXPECT_THAT(std::string(reader->read().status().message()), HasSubstr("the heap has ended"));
    }
    EXPECT_EQ(live_reader::open(name).status().code(), absl::StatusCode::kNotFound);
}

TEST(live_page, replaces_one_of_its_name) {
    const page_file old({::getpid(), number}, std::vector<std::uint64_t>(600, 77));
    auto page = live_page::create(number, numbers(1));
    ASSERT_TRUE(page.ok()) << page.status();
    EXPECT_TRUE(live_reader::open((*page)->name()).ok());
}

TEST(live_page, is_read_whole_while_it_is_written) {
    auto page = live_page::create(number, numbers(500));
    ASSERT_TRUE(page.ok()) << page.status();
    auto reader = live_reader::open((*page)->name());
    ASSERT_TRUE(reader.ok()) << reader.status();
    std::atomic<bool> over{false};
    std::thread writer([&] {
        std::vector<std::uint64_t> values(500);
        for (std::uint64_t round = 1; !over; ++round) {
            std::ranges::fill(values, round);
            (*page)->publish(values);
            if (round % 64 == 0) {
                std::this_thread::yield();
            }
        }
    });
    int reads = 0;
    for (int i = 0; i < 300; ++i) {
        const auto s = reader->read();
        if (!s.ok()) {  // the writer does nothing else, so that a reader may have no luck
            EXPECT_EQ(s.status().code(), absl::StatusCode::kUnavailable) << s.status();
            break;
        }
        ++reads;
        const std::vector<std::uint64_t>& v = s->find("many")->values;
        EXPECT_EQ(std::ranges::count(v, v.front()), 500);
    }
    over = true;
    writer.join();
    EXPECT_GT(reads, 0);
}

/// The owner is stopped at any moment. If the sequence is even then, all values are of one write.
TEST(live_page, says_when_it_is_being_written) {
    constexpr std::uint32_t count = 5000;
    live_test::child_process owner([](const auto& ready) {
        auto page = live_page::create(number, numbers(count));
        if (!page.ok()) {
            return 1;
        }
        std::vector<std::uint64_t> values(count);
        for (std::uint64_t round = 1;; ++round) {
            std::ranges::fill(values, round);
            (*page)->publish(values);
            if (round == 1) {
                ready();
            }
        }
    });
    ASSERT_TRUE(owner.is_ready());
    const page_name name{owner.pid(), number};
    const int fd = ::shm_open(("/" + name.text()).c_str(), O_RDONLY, 0);
    ASSERT_GE(fd, 0);
    int odd = 0;
    for (int i = 0; i < 200 && odd < 20; ++i) {
        absl::SleepFor(absl::Microseconds(300 + 17 * i));
        ASSERT_EQ(::kill(owner.pid(), SIGSTOP), 0);
        int status = 0;
        ASSERT_EQ(::waitpid(owner.pid(), &status, WUNTRACED), owner.pid());
        std::vector<std::uint64_t> words(header_words + command_words + row::words + count);
        ASSERT_EQ(::pread(fd, words.data(), words.size() * 8, 0), static_cast<ssize_t>(words.size() * 8));
        const auto values = std::span(words).last(count);
        const bool is_even = words[static_cast<std::uint32_t>(header::sequence)] % 2 == 0;
        odd += is_even ? 0 : 1;
        if (is_even) {
            ASSERT_EQ(std::ranges::count(values, values.front()), count);
        }
        ASSERT_EQ(::kill(owner.pid(), SIGCONT), 0);
    }
    ::close(fd);
    EXPECT_GT(odd, 0);
    owner.kill(SIGKILL);
    EXPECT_TRUE(live::remove_if_stale(name));
}

TEST(live_page, of_an_ended_process_is_removed) {
    const page_file left({nobody, 0}, page_words(numbers(1), {1}));
    EXPECT_THAT(live::find_pages(), testing::Contains(page_name{nobody, 0}));
    const auto opened = live_reader::open({nobody, 0});
    EXPECT_EQ(opened.status().code(), absl::StatusCode::kNotFound);
    EXPECT_THAT(std::string(opened.status().message()), HasSubstr("the process has ended; the page that it left"));
    EXPECT_FALSE(left.is_there());
    const page_file again({nobody, 1}, std::vector<std::uint64_t>(600, 77));
    EXPECT_THAT(live::living_pages(), testing::Not(testing::Contains(page_name{nobody, 1})));
    EXPECT_FALSE(again.is_there());
}

TEST(live_page, of_another_process_with_the_same_number_is_removed) {
    auto words = page_words(numbers(1), {1});
    words[static_cast<std::uint32_t>(header::start_ticks)] -= 1;
    const page_file left({::getpid(), number}, words);
    EXPECT_EQ(live_reader::open({::getpid(), number}).status().code(), absl::StatusCode::kNotFound);
    EXPECT_FALSE(left.is_there());
}

TEST(live_page, of_a_living_process_stays_whatever_is_in_it) {
    const page_file garbage({::getpid(), number}, std::vector<std::uint64_t>(600, 77));
    const auto opened = live_reader::open({::getpid(), number});
    EXPECT_EQ(opened.status().code(), absl::StatusCode::kDataLoss);
    EXPECT_THAT(std::string(opened.status().message()), HasSubstr("it is no live page"));
    EXPECT_TRUE(garbage.is_there());
    const page_file empty({::getpid(), number}, {});
    EXPECT_EQ(live_reader::open({::getpid(), number}).status().code(), absl::StatusCode::kDataLoss);
    EXPECT_TRUE(empty.is_there());
    const page_file making({::getpid(), number}, std::vector<std::uint64_t>(600, 0));
    EXPECT_EQ(live_reader::open({::getpid(), number}).status().code(), absl::StatusCode::kUnavailable);
    EXPECT_TRUE(making.is_there());
}

TEST(live_page, that_is_cut_off_is_an_error) {
    const auto words = page_words(numbers(100), std::vector<std::uint64_t>(100, 5));
    const page_file file({::getpid(), number}, words);
    auto reader = live_reader::open({::getpid(), number});
    ASSERT_TRUE(reader.ok()) << reader.status();
    EXPECT_TRUE(reader->read().ok());
    file.cut(512);
    EXPECT_EQ(reader->read().status().code(), absl::StatusCode::kDataLoss);
    EXPECT_EQ(reader->send(command::trim, 0, "", absl::Seconds(1)).status().code(), absl::StatusCode::kDataLoss);
    EXPECT_EQ(live_reader::open({::getpid(), number}).status().code(), absl::StatusCode::kDataLoss);
}

TEST(live_page, of_another_version_is_an_error) {
    auto words = page_words(numbers(1), {1});
    words[static_cast<std::uint32_t>(header::version)] = std::uint64_t{9} << 32;
    const page_file file({::getpid(), number}, words);
    EXPECT_EQ(live_reader::open({::getpid(), number}).status().code(), absl::StatusCode::kFailedPrecondition);
    EXPECT_TRUE(file.is_there());
}

TEST(live_page, that_is_being_written_for_ever_is_an_error) {
    auto words = page_words(numbers(1), {1});
    words[static_cast<std::uint32_t>(header::sequence)] = 3;
    const page_file file({::getpid(), number}, words);
    auto reader = live_reader::open({::getpid(), number});
    ASSERT_TRUE(reader.ok()) << reader.status();
    EXPECT_EQ(reader->read().status().code(), absl::StatusCode::kUnavailable);
}

TEST(live_page, of_another_user_is_refused) {
    if (::geteuid() == 0) {
        // Root may open everything: the child gives up its rights.
        const page_file file({::getpid(), number}, page_words(numbers(1), {1}));
        const page_name name{::getpid(), number};
        live_test::child_process other([&](const auto& ready) {
            if (::setgid(65534) != 0 || ::setuid(65534) != 0) {
                ready();
                return 77;
            }
            const auto opened = live_reader::open(name);
            ready();
            return opened.status().code() == absl::StatusCode::kPermissionDenied ? 0 : 1;
        });
        const int code = other.wait();
        if (code == 77) {
            GTEST_SKIP() << "this process may not become another user";
        }
        EXPECT_EQ(code, 0);
        EXPECT_TRUE(file.is_there());
        return;
    }
    const page_file file({::getpid(), number}, page_words(numbers(1), {1}), 0);
    const auto opened = live_reader::open({::getpid(), number});
    EXPECT_EQ(opened.status().code(), absl::StatusCode::kPermissionDenied);
    EXPECT_THAT(std::string(opened.status().message()), HasSubstr("the live page is another user's"));
}

/// A page whose owner answers commands in a thread.
class live_commands : public testing::Test {
protected:
    void SetUp() override {
        auto made = live_page::create(number, numbers(1));
        ASSERT_TRUE(made.ok()) << made.status();
        page_ = *std::move(made);
        auto opened = live_reader::open(page_->name());
        ASSERT_TRUE(opened.ok()) << opened.status();
        reader_.emplace(*std::move(opened));
    }
    void answer(absl::Status with, std::string text) {
        owner_ = std::thread([this, with, text] {
            std::optional<request> r;
            while (!(r = page_->next_request())) {
                std::this_thread::yield();
            }
            seen_ = *r;
            page_->acknowledge(r->ticket, with, text);
        });
    }
    void TearDown() override {
        if (owner_.joinable()) {
            owner_.join();
        }
    }
    shared_word& word(command_word w) {
        if (!region_) {
            const boost::interprocess::shared_memory_object object(
                boost::interprocess::open_only, page_->name().text().c_str(), boost::interprocess::read_write);
            region_.emplace(object, boost::interprocess::read_write);
        }
        return static_cast<shared_word*>(region_->get_address())[header_words + static_cast<std::uint32_t>(w)];
    }

    std::unique_ptr<live_page> page_;
    std::optional<live_reader> reader_;
    std::optional<boost::interprocess::mapped_region> region_;
    std::thread owner_;
    request seen_;
};

TEST_F(live_commands, come_with_number_and_text_and_are_answered) {
    answer(absl::OkStatus(), "done");
    const auto said = reader_->send(command::reserve, 12345, "a text", absl::Seconds(60));
    ASSERT_TRUE(said.ok()) << said.status();
    EXPECT_EQ(*said, "done");
    owner_.join();
    EXPECT_EQ(seen_.kind, command::reserve);
    EXPECT_EQ(seen_.number, 12345u);
    EXPECT_EQ(seen_.argument, "a text");
    EXPECT_FALSE(page_->next_request());
    EXPECT_EQ(word(command_word::claim).load<simt::order::relaxed>(), 0u);
}

TEST_F(live_commands, bring_the_error_of_the_heap) {
    answer(absl::ResourceExhaustedError("no memory"), "no memory");
    const auto said = reader_->send(command::trim, 0, "", absl::Seconds(60));
    EXPECT_EQ(said.status().code(), absl::StatusCode::kResourceExhausted);
    EXPECT_THAT(std::string(said.status().message()), HasSubstr("heap 4000000001: no memory"));
}

TEST_F(live_commands, that_nobody_answers_end_at_the_limit) {
    const auto said = reader_->send(command::trim, 0, "", absl::Milliseconds(20));
    EXPECT_EQ(said.status().code(), absl::StatusCode::kDeadlineExceeded);
    EXPECT_EQ(word(command_word::claim).load<simt::order::relaxed>(), 0u);
    // The next one waits for the answer to the first.
    EXPECT_THAT(std::string(reader_->send(command::trim, 0, "", absl::Milliseconds(20)).status().message()),
                HasSubstr("still works on an earlier command"));
    const auto first = page_->next_request();
    ASSERT_TRUE(first);
    page_->acknowledge(first->ticket, absl::OkStatus(), "late");
    answer(absl::OkStatus(), "second");
    const auto second = reader_->send(command::trim, 0, "", absl::Seconds(60));
    ASSERT_TRUE(second.ok()) << second.status();
    EXPECT_EQ(*second, "second");
}

TEST_F(live_commands, wait_for_a_reader_that_lives_and_take_over_from_one_that_ended) {
    word(command_word::claim)
        .store<simt::order::relaxed>(claim_of(static_cast<std::uint32_t>(::getpid()), *start_ticks_of(::getpid())));
    EXPECT_THAT(std::string(reader_->send(command::trim, 0, "", absl::Milliseconds(20)).status().message()),
                HasSubstr("is sending it a command"));
    for (const std::uint64_t ended :
         {claim_of(nobody, 5), claim_of(static_cast<std::uint32_t>(::getpid()), *start_ticks_of(::getpid()) - 1),
          ~std::uint64_t{0}}) {
        word(command_word::claim).store<simt::order::relaxed>(ended);
        answer(absl::OkStatus(), "taken over");
        EXPECT_TRUE(reader_->send(command::trim, 0, "", absl::Seconds(60)).ok()) << ended;
        owner_.join();
    }
}

TEST_F(live_commands, of_any_bytes_are_returned_as_they_are) {
    word(command_word::kind).store<simt::order::relaxed>(99);
    for (std::uint32_t i = 0; i < argument_words; ++i) {
        (&word(command_word::argument))[i].store<simt::order::relaxed>(~std::uint64_t{0});
    }
    word(command_word::acknowledged).store<simt::order::relaxed>(5);
    word(command_word::requested).store<simt::order::release>(77);
    const auto r = page_->next_request();
    ASSERT_TRUE(r);
    EXPECT_EQ(r->ticket, 77u);
    EXPECT_EQ(static_cast<std::uint64_t>(r->kind), 99u);
    EXPECT_EQ(r->argument, std::string(argument_words * 8, '?'));
    EXPECT_FALSE(page_->next_request());
}

TEST_F(live_commands, with_a_text_that_is_too_long_are_refused) {
    EXPECT_EQ(reader_->send(command::dump, 0, std::string(256, 'a'), absl::Seconds(1)).status().code(),
              absl::StatusCode::kInvalidArgument);
}

TEST_F(live_commands, watching_ends_by_itself) {
    const std::uint64_t now = monotonic_ns();
    EXPECT_FALSE(page_->is_watched(now));
    reader_->watch(absl::Seconds(2));
    EXPECT_TRUE(page_->is_watched(now));
    EXPECT_FALSE(page_->is_watched(monotonic_ns() + 2'000'000'001));
    word(command_word::watched_until_ns).store<simt::order::relaxed>(~std::uint64_t{0});
    EXPECT_FALSE(page_->is_watched(now)) << "nonsense";
}

}  // namespace
}  // namespace orchard::live
