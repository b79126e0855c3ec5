// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.

/// The reader's side of live pages; see live_reader.hpp.

#include "runtime/live/live_reader.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <filesystem>

#include "absl/cleanup/cleanup.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/time/clock.h"
#include "host/monotonic_clock.hpp"

namespace orchard::live {
namespace {

namespace ipc = boost::interprocess;
using simt::order;

/// Where Linux shows the objects of `shm_open`.
constexpr const char* folder = "/dev/shm";

std::string path_of(const page_name& name) { return absl::StrCat(folder, "/", name.text()); }

/// Returns a status with the page's name before its text.
absl::Status named(const page_name& name, const absl::Status& status) {
    return {status.code(), absl::StrCat("process ", name.pid, ", heap ", name.heap, ": ", status.message())};
}

absl::Status has_ended() { return absl::NotFoundError("the process has ended"); }

/// Returns true if the page was left by a process that has ended. Its process is known by its number and its start,
/// which the page says once it is made; a page that says nothing sensible goes by its name alone.
bool is_stale(const page_name& name, int fd) {
    const std::optional<std::uint64_t> start = start_ticks_of(name.pid);
    if (!start) {
        return true;
    }
    std::array<std::uint64_t, header_words> words{};
    const ssize_t got = ::pread(fd, words.data(), sizeof(words), 0);
    const auto word = [&](header h) { return words[static_cast<std::uint32_t>(h)]; };
    return got == sizeof(words) && word(header::magic) == magic_word && word(header::start_ticks) != 0 &&
           word(header::start_ticks) != *start;
}

absl::Status why_not(const ipc::interprocess_exception& e) {
    const int error = e.get_native_error();
    if (error == ENOENT) {
        return absl::NotFoundError(
            "there is no live page; start its program with ORCHARD_LIVE_PAGE=1, or see `orchard top --list`");
    }
    if (error == EACCES || error == EPERM) {
        return absl::PermissionDeniedError("the live page is another user's; run this as that user");
    }
    return absl::UnavailableError(
        absl::StrCat("the live page cannot be opened: ", error != 0 ? std::strerror(error) : e.what(),
                     "; see `orchard top --list`"));
}

}  // namespace

std::vector<page_name> find_pages() {
    std::vector<page_name> names;
    std::error_code error;
    for (std::filesystem::directory_iterator i(folder, error), end; !error && i != end; i.increment(error)) {
        if (const auto name = page_name::from(i->path().filename().native())) {
            names.push_back(*name);
        }
    }
    std::ranges::sort(
        names, [](const page_name& a, const page_name& b) { return a.pid != b.pid ? a.pid < b.pid : a.heap < b.heap; });
    return names;
}

/// The file that was looked at is compared with the one that has the name now: a new process of the same number may
/// have made its own meanwhile.
bool remove_if_stale(const page_name& name) {
    const std::string path = path_of(name);
    const int fd = ::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
    if (fd < 0) {
        return false;
    }
    const absl::Cleanup close = [fd] { ::close(fd); };
    struct stat seen {};
    struct stat now {};
    return is_stale(name, fd) && ::fstat(fd, &seen) == 0 && ::stat(path.c_str(), &now) == 0 &&
           seen.st_ino == now.st_ino && ipc::shared_memory_object::remove(name.text().c_str());
}

/// A page of another user's that cannot be removed stays in the list: opening it returns the reason.
std::vector<page_name> living_pages() {
    std::vector<page_name> names = find_pages();
    std::erase_if(names, remove_if_stale);
    return names;
}

absl::StatusOr<live_reader> live_reader::open(const page_name& name) {
    if (remove_if_stale(name)) {
        return named(name, absl::NotFoundError("the process has ended; the page that it left was removed"));
    }
    try {
        ipc::shared_memory_object object(ipc::open_only, name.text().c_str(), ipc::read_write);
        ipc::offset_t bytes = 0;
        if (!object.get_size(bytes) || static_cast<std::uint64_t>(bytes) < header_words * word_bytes) {
            return named(name, check_header({}, static_cast<std::uint64_t>(bytes)));
        }
        const auto mapped = static_cast<std::size_t>(std::min<std::uint64_t>(bytes, max_page_bytes));
        ipc::mapped_region region(object, ipc::read_write, 0, mapped);
        live_reader reader(name, std::move(object), std::move(region));
        std::array<std::uint64_t, header_words> words{};
        // Acquire, the magic first: pairs with the release at the end of the page's making.
        for (std::size_t i = 0; i < words.size(); ++i) {
            words[i] = reader.words_[i].load<order::acquire>();
        }
        const auto word = [&](header h) { return words[static_cast<std::uint32_t>(h)]; };
        if (absl::Status s = check_header(words, static_cast<std::uint64_t>(bytes)); !s.ok()) {
            return named(name, s);
        }
        reader.start_ticks_ = word(header::start_ticks);
        const std::uint64_t first = word(header::command_first);
        const std::uint64_t all = word(header::page_bytes) / word_bytes;
        if (word(header::command_words) >= command_words && first >= header_words && first < all &&
            command_words <= all - first) {
            reader.command_first_ = static_cast<std::uint32_t>(first);
        }
        return reader;
    } catch (const ipc::interprocess_exception& e) {
        return named(name, why_not(e));
    }
}

/// Asked before each look: a read of a page that was cut off would end this process by a signal.
absl::Status live_reader::check_size() const {
    ipc::offset_t bytes = 0;
    return object_.get_size(bytes) && static_cast<std::uint64_t>(bytes) >= region_.get_size()
               ? absl::OkStatus()
               : absl::DataLossError("the page was cut off while it was open; start its program again");
}

absl::Status live_reader::check_owner() const {
    if (start_ticks_of(name_.pid) != start_ticks_) {
        (void)remove_if_stale(name_);
        return has_ended();
    }
    if (at(header::state).load<order::acquire>() != static_cast<std::uint64_t>(page_state::live)) {
        return absl::NotFoundError("the heap has ended");
    }
    return absl::OkStatus();
}

/// One try of a sequence lock: returns false if the owner wrote meanwhile. The fence pairs with that in
/// `live_page::publish`: if a value of a later write was read, the sequence is read as changed.
bool live_reader::copy(std::vector<std::uint64_t>& to) const {
    const std::uint64_t before = at(header::sequence).load<order::acquire>();
    for (std::size_t i = 0; i < to.size(); ++i) {
        to[i] = words_[i].load<simt::load_before_fence>();
    }
    simt::fence<simt::scope::system>();
    return before % 2 == 0 && at(header::sequence).load<order::relaxed>() == before;
}

absl::StatusOr<snapshot> live_reader::read() {
    std::vector<std::uint64_t> page(region_.get_size() / word_bytes);
    const absl::Time end = monotonic_now() + absl::Seconds(1);
    for (;;) {
        absl::Status status = check_owner();
        status.Update(check_size());
        if (!status.ok()) {
            return named(name_, status);
        }
        if (copy(page)) {
            break;
        }
        if (monotonic_now() > end) {
            return named(name_, absl::UnavailableError(
                                    "the heap began to write its page, and does not go on; it may be stopped"));
        }
        absl::SleepFor(absl::Microseconds(100));  // the owner writes for a few microseconds
    }
    absl::StatusOr<snapshot> result = parse(page);
    if (!result.ok()) {
        return named(name_, result.status());
    }
    result->name = name_;
    return result;
}

void live_reader::watch(absl::Duration span) {
    if (command_first_ != 0 && check_size().ok()) {
        at(command_word::watched_until_ns)
            .store<order::relaxed>(monotonic_ns() + static_cast<std::uint64_t>(absl::ToInt64Nanoseconds(span)));
    }
}

/// Takes the command block for this process: free, or left by a reader that has ended.
absl::Status live_reader::claim(std::uint64_t mark, absl::Time end) {
    for (;;) {
        std::uint64_t found = at(command_word::claim).load<order::relaxed>();
        const auto holder = static_cast<pid_t>(found >> 32);
        const auto start = start_ticks_of(holder);
        const bool is_free = found == 0 || !start || claim_of(static_cast<std::uint32_t>(holder), *start) != found;
        // Acquire: the last holder's commands come before this one's.
        if (is_free && at(command_word::claim).compare_exchange<order::acquire>(found, mark)) {
            return absl::OkStatus();
        }
        if (monotonic_now() > end) {
            return absl::DeadlineExceededError(absl::StrCat("process ", holder, " is sending it a command; try again"));
        }
        absl::SleepFor(absl::Milliseconds(5));
    }
}

absl::StatusOr<std::string> live_reader::send(command what, std::uint64_t number, std::string_view argument,
                                              absl::Duration limit) {
    if (argument.size() >= argument_words * word_bytes) {
        return absl::InvalidArgumentError(absl::StrFormat("the argument has %d bytes; give at most %d", argument.size(),
                                                          argument_words * word_bytes - 1));
    }
    absl::Status status = check_owner();
    status.Update(check_size());
    if (status.ok() && command_first_ == 0) {
        status = absl::FailedPreconditionError(
            "its page takes no commands of this program's version; use the `orchard` of its program's version");
    }
    const absl::Time end = monotonic_now() + limit;
    const std::uint64_t mark = claim_of(static_cast<std::uint32_t>(::getpid()), start_ticks_of(::getpid()).value_or(0));
    status.Update(status.ok() ? claim(mark, end) : status);
    if (!status.ok()) {
        return named(name_, status);
    }
    absl::StatusOr<std::string> answer = post(what, number, argument, end);
    // Release: pairs with the acquire in `claim` of the next reader.
    std::uint64_t mine = mark;
    (void)at(command_word::claim).compare_exchange<order::acq_rel>(mine, 0);
    return answer.ok() ? answer : named(name_, answer.status());
}

/// Writes the command, and waits for its answer. A command of a reader that was killed may still be under way.
absl::StatusOr<std::string> live_reader::post(command what, std::uint64_t number, std::string_view argument,
                                              absl::Time end) {
    const auto await = [&](std::uint64_t ticket, std::string_view doing) {
        absl::Status status;
        // Acquire: pairs with the release in `live_page::acknowledge`.
        while (at(command_word::acknowledged).load<order::acquire>() != ticket && status.ok()) {
            status = check_owner();
            if (status.ok() && monotonic_now() > end) {
                status = absl::DeadlineExceededError(
                    absl::StrCat("the heap ", absl::string_view(doing.data(), doing.size())));
            }
            absl::SleepFor(absl::Milliseconds(2));
        }
        return status;
    };
    const std::uint64_t last = at(command_word::requested).load<order::relaxed>();
    if (absl::Status s = await(last, "still works on an earlier command; try again later"); !s.ok()) {
        return s;
    }
    std::array<std::uint64_t, argument_words> text{};
    put_text(text, argument);
    for (std::uint32_t i = 0; i < argument_words; ++i) {
        (&at(command_word::argument))[i].store<order::relaxed>(text[i]);
    }
    at(command_word::kind).store<order::relaxed>(static_cast<std::uint64_t>(what));
    at(command_word::number).store<order::relaxed>(number);
    const std::uint64_t ticket = last + 1;
    at(command_word::requested).store<order::release>(ticket);  // pairs with the acquire in `live_page::next_request`
    if (absl::Status s = await(ticket, "has not answered in time; the command may still be done"); !s.ok()) {
        return s;
    }
    std::array<std::uint64_t, result_words> result{};
    for (std::uint32_t i = 0; i < result_words; ++i) {
        result[i] = (&at(command_word::result))[i].load<order::relaxed>();
    }
    const std::uint64_t code = at(command_word::status).load<order::relaxed>();
    const std::string said = text_in(result);
    return code == 0 ? absl::StatusOr<std::string>(said)
                     : absl::Status(static_cast<absl::StatusCode>(std::min<std::uint64_t>(code, 16)),
                                    said.empty() ? "the heap gave no reason" : said);
}

}  // namespace orchard::live
