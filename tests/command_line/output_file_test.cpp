// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.

#include "runtime/cli/output_file.hpp"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <sstream>
#include <utility>

namespace orchard::command_line {
namespace {

class output_files : public ::testing::Test {
protected:
    void SetUp() override { std::filesystem::create_directory(folder_); }
    void TearDown() override { std::filesystem::remove_all(folder_); }

    [[nodiscard]] std::string path(const std::string& name) const { return folder_ + "/" + name; }
    [[nodiscard]] std::size_t entries() const {
        return static_cast<std::size_t>(std::distance(std::filesystem::directory_iterator(folder_), {}));
    }
    static mode_t mode_of(const std::string& file) {
        struct stat about {};
        EXPECT_EQ(::stat(file.c_str(), &about), 0) << file;
        return about.st_mode & 0777u;
    }
    static std::string text_in(const std::string& file) {
        std::stringstream text;
        text << std::ifstream(file).rdbuf();
        return text.str();
    }

private:
    std::string folder_ = testing::TempDir() + "output_files_" + std::to_string(::getpid());
};

TEST_F(output_files, are_complete_or_unchanged) {
    std::ofstream(path("old")) << "as it was";
    {
        const auto old = output_file::open(path("old"));
        const auto fresh = output_file::open(path("fresh"));
        ASSERT_TRUE(old.ok() && fresh.ok());
        EXPECT_EQ(entries(), 1u) << "until it is written, a file has no name";
    }
    EXPECT_EQ(text_in(path("old")), "as it was");
    EXPECT_EQ(entries(), 1u);
    EXPECT_TRUE(write_file(path("old"), "new").ok());
    EXPECT_TRUE(write_file(path("fresh"), "new, too").ok());
    EXPECT_EQ(text_in(path("old")), "new");
    EXPECT_EQ(text_in(path("fresh")), "new, too");
    EXPECT_EQ(entries(), 2u) << "nothing else is left";
}

// A process that is killed between the two steps of a replacement leaves a name with its number.
TEST_F(output_files, replace_what_a_killed_process_of_the_same_number_left) {
    std::ofstream(path("old")) << "as it was";
    std::ofstream(path("old") + "." + std::to_string(::getpid())) << "left behind";
    const absl::Status written = write_file(path("old"), "new");
    EXPECT_TRUE(written.ok()) << written;
    EXPECT_EQ(text_in(path("old")), "new");
    EXPECT_EQ(entries(), 1u);
}

TEST_F(output_files, follow_the_umask_or_are_the_owners) {
    struct expectation {
        mode_t mask;
        readable_by who;
        mode_t mode;
    };
    for (const expectation& e :
         {expectation{027, readable_by::umask_says, 0640}, expectation{0, readable_by::umask_says, 0666},
          expectation{0, readable_by::owner, 0600}, expectation{022, readable_by::owner, 0600}}) {
        std::ofstream(path("old")) << "of another mode";
        std::filesystem::permissions(path("old"), std::filesystem::perms{0644});
        std::filesystem::remove(path("made"));
        std::filesystem::remove(path("link"));
        std::filesystem::create_symlink("made", path("link"));
        const mode_t before = ::umask(e.mask);
        for (const char* const name : {"some", "old", "link"}) {
            EXPECT_TRUE(write_file(path(name), "text", e.who).ok());
        }
        ::umask(before);
        for (const char* const name : {"some", "old", "made"}) {
            EXPECT_EQ(mode_of(path(name)), e.mode) << name << ", umask " << e.mask;
        }
        std::filesystem::remove(path("some"));
    }
}

// A file system that knows no files without a name: its file has a name while the text is written.
TEST_F(output_files, that_had_a_name_from_the_beginning_have_the_same_modes) {
    for (const auto& [who, mode] : {std::pair{readable_by::umask_says, 0666u}, std::pair{readable_by::owner, 0600u}}) {
        const mode_t before = ::umask(0);
        output_file named = output_file::open_named(path("named"), who);
        EXPECT_TRUE(named.commit("text").ok());
        ::umask(before);
        EXPECT_EQ(text_in(path("named")), "text");
        EXPECT_EQ(mode_of(path("named")), mode);
        EXPECT_EQ(entries(), 1u);
    }
}

TEST_F(output_files, that_are_devices_stay_devices) {
    EXPECT_TRUE(write_file("/dev/null", "text").ok());
    struct stat about {};
    ASSERT_EQ(::stat("/dev/null", &about), 0);
    EXPECT_TRUE(S_ISCHR(about.st_mode));
}

TEST_F(output_files, that_are_fifos_reach_the_reader) {
    ASSERT_EQ(::mkfifo(path("fifo").c_str(), 0600), 0);
    const int reader = ::open(path("fifo").c_str(), O_RDONLY | O_NONBLOCK);
    ASSERT_GE(reader, 0);
    EXPECT_TRUE(write_file(path("fifo"), "text").ok());
    char text[8]{};
    EXPECT_EQ(::read(reader, text, sizeof text), 4);
    EXPECT_STREQ(text, "text");
    ::close(reader);
    struct stat about {};
    ASSERT_EQ(::lstat(path("fifo").c_str(), &about), 0);
    EXPECT_TRUE(S_ISFIFO(about.st_mode));
    EXPECT_EQ(entries(), 1u);
}

TEST_F(output_files, behind_a_link_are_written_and_the_link_stays) {
    std::ofstream(path("target")) << "a longer text than the new one";
    std::filesystem::create_symlink("target", path("link"));
    std::filesystem::create_symlink("missing", path("dangling"));
    EXPECT_TRUE(write_file(path("link"), "new").ok());
    EXPECT_TRUE(write_file(path("dangling"), "made").ok());
    EXPECT_TRUE(std::filesystem::is_symlink(path("link")));
    EXPECT_EQ(text_in(path("target")), "new");
    EXPECT_EQ(text_in(path("missing")), "made");
}

TEST_F(output_files, leave_nothing_where_there_is_no_room) {
    std::ofstream(path("old")) << "as it was";
    struct rlimit before {};
    ASSERT_EQ(::getrlimit(RLIMIT_FSIZE, &before), 0);
    const auto handler = ::signal(SIGXFSZ, SIG_IGN);  // the write then fails
    const struct rlimit small { 1000, before.rlim_max };
    ASSERT_EQ(::setrlimit(RLIMIT_FSIZE, &small), 0);
    const absl::Status full = write_file(path("old"), std::string(100'000, 'x'));
    ::setrlimit(RLIMIT_FSIZE, &before);
    ::signal(SIGXFSZ, handler);
    EXPECT_EQ(full.message(), path("old") + ": cannot be written: File too large");
    EXPECT_EQ(text_in(path("old")), "as it was");
    EXPECT_EQ(entries(), 1u);
}

TEST_F(output_files, that_cannot_be_written_are_refused_before_the_work) {
    EXPECT_EQ(output_file::open(path("")).status().message(), path("") + ": is a folder; name a file in it");
    EXPECT_EQ(output_file::open(path("none/a")).status().message(),
              path("none/a") + ": cannot be written: No such file or directory; name a file in a folder that can");
    EXPECT_TRUE(open_if_named("").ok());
    EXPECT_FALSE(open_if_named("")->has_value());
    EXPECT_FALSE(open_if_named(path("none/a")).ok());
}

}  // namespace
}  // namespace orchard::command_line
