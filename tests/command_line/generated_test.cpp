// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.

// The manual page and the completions: they have all commands and options that the program's help has.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdio>
#include <filesystem>
#include <fstream>
#include <regex>
#include <set>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/str_split.h"
#include "runtime/cli/command_line.hpp"
#include "tests/options/clean_environment.hpp"

namespace orchard::command_line {
namespace {

using testing::Contains;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::IsSupersetOf;
using testing::Not;

std::string output_of(const std::vector<std::string>& arguments) {
    std::vector<const char*> argv = {"orchard"};
    for (const std::string& argument : arguments) {
        argv.push_back(argument.c_str());
    }
    testing::internal::CaptureStdout();
    EXPECT_EQ(run(static_cast<int>(argv.size()), argv.data()), 0);
    return testing::internal::GetCapturedStdout();
}

/// Returns all parts of the text that match, each once.
std::set<std::string> matches(const std::string& text, const char* pattern) {
    const std::regex expression(pattern);
    std::set<std::string> all;
    for (std::sregex_iterator at(text.begin(), text.end(), expression), end; at != end; ++at) {
        all.insert(at->str(1));
    }
    return all;
}

/// The commands that the help lists.
std::set<std::string> commands() { return matches(output_of({"--help"}), R"(\n  ([a-z]\w*) )"); }
/// The options that a command's help lists, "--no-" too.
std::set<std::string> options_of(const std::string& command) {
    return matches(output_of({command, "--help"}), R"((?:\n  |,)(--[a-z-]+))");
}

class generated : public testing::Test {
    testing_support::clean_environment environment_;
};

TEST_F(generated, is_not_among_the_commands) {
    EXPECT_THAT(commands(), IsSupersetOf({"info", "options", "walk", "bench", "probe"}));
    EXPECT_THAT(commands(), Not(Contains("generate")));
    for (const char* what : {"man", "bash", "zsh"}) {
        EXPECT_THAT(matches(output_of({"generate", what}), R"((\bgenerate\b)(?! (?:man|bash|zsh)`))"), IsEmpty());
    }
}

TEST_F(generated, every_command_and_option_is_in_the_manual) {
    // Hyphens are escaped there.
    const std::string manual = absl::StrReplaceAll(output_of({"generate", "man"}), {{"\\-", "-"}});
    for (const std::string& command : commands()) {
        EXPECT_THAT(manual, HasSubstr(absl::StrCat(".SS \\fBorchard ", command, "\\fR")));
        for (const std::string& option : options_of(command)) {
            EXPECT_THAT(manual, HasSubstr(absl::StrCat("\\fB", option, "\\fR"))) << command;
        }
    }
    EXPECT_THAT(manual, HasSubstr("\"Orchard " ORCHARD_VERSION "\""));
}

TEST_F(generated, the_manual_has_the_words_of_an_argument_and_defaults) {
    const std::string manual = output_of({"generate", "man"});
    EXPECT_THAT(manual, HasSubstr("\n\\fBshortage\\fR\nrequests of a heap that has nothing left\n"));
    EXPECT_THAT(manual, HasSubstr("(default: 64 MiB)"));
    EXPECT_THAT(manual, HasSubstr("\\fB\\-\\-json\\fR [\\fIFILE\\fR]\n"));
    // No line of text begins like a request of roff.
    EXPECT_THAT(matches(manual, R"((?:^|\n)([.'](?!\\"|TH|SH|SS|TP|RS|RE|PP|BR? |I ).*))"), IsEmpty());
}

TEST_F(generated, zsh_has_every_command_and_option) {
    const std::string script = output_of({"generate", "zsh"});
    EXPECT_THAT(script, testing::StartsWith("#compdef orchard\n"));
    for (const std::string& command : commands()) {
        EXPECT_THAT(script, HasSubstr(absl::StrCat("                '", command, ":")));
        for (const std::string& option : options_of(command)) {
            EXPECT_TRUE(std::regex_search(script, std::regex(absl::StrCat("'\\*", option, "=?\\[")))) << option;
        }
    }
    EXPECT_THAT(script, HasSubstr(":device:(auto cuda emulated)'"));
    EXPECT_THAT(script, HasSubstr("::FILE:_files'"));
}

/// Bash with the completion; the words on the line, the last of which is to be completed.
class bash_completed : public generated {
protected:
    bash_completed() { std::ofstream(script_) << output_of({"generate", "bash"}); }
    ~bash_completed() override { std::filesystem::remove(script_); }

    /// Returns what bash offers. @param words  as bash splits them: "=" is a word
    [[nodiscard]] std::vector<std::string> offered(const std::string& words) const {
        const std::string command = absl::StrCat(
            "bash -c 'compopt() { :; }; . ", script_, "; COMP_WORDS=(", words,
            "); COMP_CWORD=$((${#COMP_WORDS[@]} - 1)); _orchard; printf \"%s\\n\" \"${COMPREPLY[@]}\"' 2>&1");
        FILE* const pipe = popen(command.c_str(), "r");
        std::string text;
        char buffer[4096];
        while (const std::size_t n = std::fread(buffer, 1, sizeof buffer, pipe)) {
            text.append(buffer, n);
        }
        EXPECT_EQ(pclose(pipe), 0) << text;
        return absl::StrSplit(text, '\n', absl::SkipEmpty());
    }

    std::string script_ = testing::TempDir() + "completion_" + std::to_string(::getpid());
};

TEST_F(bash_completed, every_command_and_option_is_offered) {
    const std::set<std::string> all = commands();
    EXPECT_THAT(offered("orchard \"\""), testing::UnorderedElementsAreArray(all));
    for (const std::string& command : all) {
        EXPECT_THAT(offered(absl::StrCat("orchard ", command, " --")), IsSupersetOf(options_of(command)));
    }
}

TEST_F(bash_completed, words_of_values_are_offered) {
    EXPECT_THAT(offered("orchard b"), ElementsAre("bare", "bench"));
    EXPECT_THAT(offered("orchard --v"), ElementsAre("--version"));
    EXPECT_THAT(offered("orchard walk --device \"\""), ElementsAre("auto", "cuda", "emulated"));
    EXPECT_THAT(offered("orchard walk --device = e"), ElementsAre("emulated"));
    EXPECT_THAT(offered("orchard walk --dead-ends ="), ElementsAre("stop", "restart"));
    EXPECT_THAT(offered("orchard bench sh"), ElementsAre("shortage"));
    EXPECT_THAT(offered("orchard bench --quick shor"), ElementsAre("shortage"));
    EXPECT_THAT(offered("orchard bench --repeats \"\""), IsEmpty()) << "a number";
}

TEST_F(bash_completed, files_are_offered) {
    EXPECT_THAT(offered("orchard walk --json " + script_.substr(0, script_.size() - 1)), Contains(script_));
    EXPECT_THAT(offered("orchard walk " + script_.substr(0, script_.size() - 1)), Contains(script_));
    EXPECT_THAT(offered("orchard uvm --plot " + script_.substr(0, script_.size() - 1)), Not(Contains(script_)))
        << "it is no folder";
}

}  // namespace
}  // namespace orchard::command_line
