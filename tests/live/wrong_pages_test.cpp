// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.

// `orchard top` and `orchard map --pid` on pages of a process that lives, but whose page is none, is damaged, has
// another version, or may not be opened: one line names the process and a remedy.

#include <gmock/gmock.h>

#include <algorithm>
#include <filesystem>
#include <ostream>
#include <string>
#include <vector>

#include "tests/live/pages.hpp"
#include "tests/support/run_without_rights.hpp"

namespace orchard::live_test {
namespace {

using test::outcome;
using testing::HasSubstr;
using words_of_page = std::vector<std::uint64_t>;

void set(words_of_page& page, live::header h, std::uint64_t value) { page[static_cast<std::uint32_t>(h)] = value; }

/// Returns a right page of the calling process.
words_of_page right_page() { return page_words({{"level", "bytes", "", "a level", live::field_kind::gauge}}, {7}); }

/// A process that makes a page with the name of its heap 0, and lives until the end of this object.
class owner_of_page {
public:
    explicit owner_of_page(const std::function<words_of_page()>& make, mode_t mode = 0600)
        : process_{[&](const auto& ready) { return own(make, mode, ready); }} {}
    ~owner_of_page() { process_.kill(SIGTERM); }
    owner_of_page(const owner_of_page&) = delete;
    owner_of_page& operator=(const owner_of_page&) = delete;

    [[nodiscard]] bool is_ready() const { return process_.is_ready(); }
    [[nodiscard]] std::string pid() const { return std::to_string(process_.pid()); }

private:
    static int own(const std::function<words_of_page()>& make, mode_t mode, const std::function<void()>& ready) {
        sigset_t end;
        ::sigemptyset(&end);
        ::sigaddset(&end, SIGTERM);
        ::sigprocmask(SIG_BLOCK, &end, nullptr);
        const page_file file({::getpid(), 0}, make(), mode);
        ready();
        int signal = 0;
        ::sigwait(&end, &signal);
        return 0;
    }

    child_process process_;
};

/// A page, and what the commands say of it.
struct wrong_page {
    const char* name;
    words_of_page (*make)();
    const char* error;
    const char* remedy;
};
void PrintTo(const wrong_page& one, std::ostream* to) { *to << one.name; }

constexpr const char* end_it = "; end the program that owns it, or ask its author\n";

const wrong_page wrong_pages[] = {
    {"noise", [] { return words_of_page(512, 0x6e6f697365); }, "it is no live page", end_it},
    {"text_alone", [] { return words_of_page(3, 0x7478657420); }, "it has 24 bytes, and a live page has ", end_it},
    {"empty", [] { return words_of_page(); }, "it has 0 bytes, and a live page has ", end_it},
    {"zeros", [] { return words_of_page(512, 0); }, "the page is being made", "; try again\n"},
    {"cut_off",
     [] {
         words_of_page page = right_page();
         page.resize(page.size() / 2);
         return page;
     },
     "the page is cut off or damaged", end_it},
    {"of_another_version",
     [] {
         words_of_page page = right_page();
         set(page, live::header::version, std::uint64_t{live::major_version + 1} << 32);
         return page;
     },
     "the page has layout 2.0, and this program reads 1.0", "; use the `orchard` of the version that the program"}};

std::string name_of(const testing::TestParamInfo<wrong_page>& one) { return one.param.name; }

class page_that_is_wrong : public testing::TestWithParam<wrong_page> {};
INSTANTIATE_TEST_SUITE_P(all, page_that_is_wrong, testing::ValuesIn(wrong_pages), name_of);

std::string picture() { return testing::TempDir() + "wrong_page_" + std::to_string(::getpid()) + ".svg"; }

/// Returns the calls of the commands that read the page of a process.
std::vector<std::vector<std::string>> calls_for(const std::string& pid) {
    return {{"top", "--pid", pid},
            {"top", "--pid", pid, "--once"},
            {"top", "--pid", pid, "--json"},
            {"top", "--pid", pid, "--prometheus"},
            {"top", "--pid", pid, "--heap", "0", "--once"},
            {"top", "--pid", pid, "--send", "trim"},
            {"map", "--pid", pid, "-o", picture()}};
}

void expect_refused(const outcome& done, const std::string& pid, const std::string& error, const std::string& remedy) {
    EXPECT_NE(done.code, 0);
    EXPECT_EQ(done.out, "");
    EXPECT_EQ(std::ranges::count(done.err, '\n'), 1) << done.err;
    EXPECT_THAT(done.err, testing::StartsWith("orchard: process " + pid + ", heap 0: " + error));
    EXPECT_THAT(done.err, HasSubstr(remedy));
    EXPECT_FALSE(std::filesystem::exists(picture()));
}

TEST_P(page_that_is_wrong, is_an_error_that_names_the_process) {
    const testing_support::clean_environment environment;
    const owner_of_page owner(GetParam().make);
    ASSERT_TRUE(owner.is_ready());
    for (const auto& words : calls_for(owner.pid())) {
        SCOPED_TRACE(testing::PrintToString(words));
        expect_refused(test::run_with(words), owner.pid(), GetParam().error, GetParam().remedy);
    }
}

/// The header of such a page is right, so that the page is opened, and only reading it fails.
TEST(page_with_a_damaged_table, is_an_error_that_names_the_process) {
    const testing_support::clean_environment environment;
    const owner_of_page owner([] {
        words_of_page page = right_page();
        set(page, live::header::table_rows, ~std::uint64_t{0});
        set(page, live::header::command_first, 0);
        return page;
    });
    ASSERT_TRUE(owner.is_ready());
    for (const char* const flag : {"--once", "--json", "--prometheus"}) {
        SCOPED_TRACE(flag);
        expect_refused(test::run_with({"top", "--pid", owner.pid(), flag}), owner.pid(),
                       "the page is damaged: ", end_it);
    }
    for (const auto& words : {std::vector<std::string>{"top", "--pid", owner.pid(), "--send", "trim"},
                              {"map", "--pid", owner.pid(), "-o", picture()}}) {
        SCOPED_TRACE(words.front());
        expect_refused(test::run_with(words), owner.pid(), "its page takes no commands of this program's version",
                       "; use the `orchard` of its program's version\n");
    }
}

TEST(page_of_another_user, is_an_error_that_names_the_process) {
    const testing_support::clean_environment environment;
    const owner_of_page owner(right_page, 0);
    ASSERT_TRUE(owner.is_ready());
    for (const auto& words : calls_for(owner.pid())) {
        SCOPED_TRACE(testing::PrintToString(words));
        const auto done = test::run_without_rights(words);
        if (!done) {
            GTEST_SKIP() << "this process may not become another user";
        }
        expect_refused(*done, owner.pid(), "the live page is another user's", "; run this as that user\n");
    }
}

}  // namespace
}  // namespace orchard::live_test
