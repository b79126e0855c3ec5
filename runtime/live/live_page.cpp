// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.

/// The owner's side of a live page; see live_page.hpp, and live_format.hpp for the layout.

#include "runtime/live/live_page.hpp"

#include <fcntl.h>
#include <unistd.h>

#include <boost/interprocess/shared_memory_object.hpp>
#include <cerrno>
#include <cstring>
#include <utility>
#include <vector>

#include "absl/strings/str_format.h"
#include "host/monotonic_clock.hpp"
#include "runtime/statistics/statistics.hpp"

namespace orchard::live {
namespace {

namespace ipc = boost::interprocess;
using simt::order;

/// A reader that asks for more is a reader that writes nonsense.
constexpr std::uint64_t longest_watch_ns = 60'000'000'000;

/// Returns the row of the table that describes `field`.
std::vector<std::uint64_t> row_of(const field_description& field, std::uint64_t first) {
    std::vector<std::uint64_t> words(row::words);
    const std::span<std::uint64_t> all(words);
    put_text(all.subspan(row::name, row::unit - row::name), field.name);
    put_text(all.subspan(row::unit, row::axis - row::unit), field.unit);
    put_text(all.subspan(row::axis, row::help - row::axis), field.axis);
    put_text(all.subspan(row::help, row::kind - row::help), field.help);
    words[row::kind] = static_cast<std::uint64_t>(field.kind);
    words[row::first] = first;
    words[row::count] = field.count;
    words[row::cell_words] = field.cell_words;
    return words;
}

std::size_t words_of(std::span<const field_description> fields) {
    std::size_t words = 0;
    for (const field_description& f : fields) {
        words += f.words();
    }
    return words;
}

std::uint64_t bytes_of(std::span<const field_description> fields) {
    const std::size_t words = header_words + command_words + fields.size() * row::words + words_of(fields);
    constexpr std::size_t page = 4096;
    return (words * word_bytes + page - 1) / page * page;
}

/// Makes the shared memory. It is filled with memory at once, since a write would otherwise end the process by a signal
/// where /dev/shm is full.
ipc::mapped_region make_memory(const std::string& name, std::uint64_t bytes) {
    ipc::permissions owner_only;
    owner_only.set_permissions(0600);
    ipc::shared_memory_object object(ipc::create_only, name.c_str(), ipc::read_write, owner_only);
    try {
        const int error = ::posix_fallocate(object.get_mapping_handle().handle, 0, static_cast<off_t>(bytes));
        if (error != 0) {
            throw ipc::interprocess_exception(ipc::error_info(error));
        }
        return ipc::mapped_region(object, ipc::read_write);
    } catch (const ipc::interprocess_exception&) {
        ipc::shared_memory_object::remove(name.c_str());
        throw;
    }
}

absl::Status why_not(const std::string& name, const ipc::interprocess_exception& e) {
    const int error = e.get_native_error();
    const std::string text = absl::StrFormat(
        "live_page: /dev/shm/%s could not be made: %s; make room in /dev/shm or mount it, remove a file of that name, "
        "or leave the option live_page off",
        name, error != 0 ? std::strerror(error) : e.what());
    switch (error) {
        case EACCES:
        case EPERM: return absl::PermissionDeniedError(text);
        case ENOSPC:
        case ENOMEM:
        case EMFILE:
        case ENFILE: return absl::ResourceExhaustedError(text);
        default: return absl::UnavailableError(text);
    }
}

}  // namespace

/// The number of the heap is this process's own, so that a page of that name is not of a heap that lives.
absl::StatusOr<std::unique_ptr<live_page>> live_page::create(std::uint32_t heap,
                                                             std::span<const field_description> fields) {
    const page_name name{::getpid(), heap};
    const std::string text = name.text();
    try {
        ipc::shared_memory_object::remove(text.c_str());
        return std::unique_ptr<live_page>(new live_page(name, make_memory(text, bytes_of(fields)), fields));
    } catch (const ipc::interprocess_exception& e) {
        return why_not(text, e);
    }
}

/// The magic comes last: a reader that finds it finds all of the header and the table.
live_page::live_page(page_name name, ipc::mapped_region region, std::span<const field_description> fields)
    : name_{name}, region_{std::move(region)}, words_{static_cast<shared_word*>(region_.get_address())} {
    const std::uint32_t table_first = header_words + command_words;
    values_words_ = words_of(fields);
    values_first_ = table_first + static_cast<std::uint32_t>(fields.size()) * row::words;
    std::uint64_t first = 0;
    for (std::size_t i = 0; i < fields.size(); ++i) {
        const std::vector<std::uint64_t> words = row_of(fields[i], first);
        for (std::size_t w = 0; w < words.size(); ++w) {
            words_[table_first + i * row::words + w].store<order::relaxed>(words[w]);
        }
        first += fields[i].words();
    }
    const auto put = [this](header h, std::uint64_t value) { at(h).store<order::relaxed>(value); };
    put(header::version, version_word);
    put(header::page_bytes, region_.get_size());
    put(header::pid, static_cast<std::uint64_t>(name.pid));
    put(header::start_ticks, start_ticks_of(name.pid).value_or(0));
    put(header::heap, name.heap);
    put(header::heartbeat_ns, monotonic_ns());
    put(header::state, static_cast<std::uint64_t>(page_state::live));
    put(header::table_first, table_first);
    put(header::table_rows, fields.size());
    put(header::row_words, row::words);
    put(header::values_first, values_first_);
    put(header::values_words, values_words_);
    put(header::command_first, header_words);
    put(header::command_words, command_words);
    put(header::statistics_version, static_cast<std::uint64_t>(statistics::version));
    at(header::magic).store<order::release>(magic_word);  // pairs with the acquire in `live_reader::copy`
}

void live_page::end() {
    if (::getpid() == name_.pid && !std::exchange(has_ended_, true)) {
        at(header::state).store<order::release>(static_cast<std::uint64_t>(page_state::ended));
        ipc::shared_memory_object::remove(name_.text().c_str());
    }
}

/// A sequence lock, as that of `device::failure_record`. The fence orders the odd number before the values; a reader
/// that sees one of the new values sees the odd number, or a later one, afterwards.
void live_page::publish(std::span<const std::uint64_t> values) {
    at(header::sequence).store<order::relaxed>(++sequence_);
    simt::fence<simt::scope::system>();
    const std::size_t count = std::min(values.size(), values_words_);
    for (std::size_t i = 0; i < count; ++i) {
        words_[values_first_ + i].store<simt::store_after_fence>(values[i]);
    }
    at(header::sequence).store<order::release>(++sequence_);  // pairs with the acquire in `live_reader::copy`
}

void live_page::beat(std::uint64_t now_ns) { at(header::heartbeat_ns).store<order::relaxed>(now_ns); }

bool live_page::is_watched(std::uint64_t now_ns) const {
    const std::uint64_t until = at(command_word::watched_until_ns).load<order::relaxed>();
    return until > now_ns && until - now_ns < longest_watch_ns;
}

std::optional<request> live_page::next_request() {
    // Pairs with the release in `live_reader::send`: the command's words are then seen.
    const std::uint64_t ticket = at(command_word::requested).load<order::acquire>();
    // Acquire: pairs with the release in `acknowledge`. Not by the page's own word, which others may write.
    if (ticket == taken_ || answered_.load(std::memory_order_acquire) != taken_) {
        return std::nullopt;
    }
    taken_ = ticket;
    std::uint64_t text[argument_words];
    for (std::uint32_t i = 0; i < argument_words; ++i) {
        text[i] = (&at(command_word::argument))[i].load<order::relaxed>();
    }
    at(command_word::begun).store<order::relaxed>(ticket);
    return request{ticket, static_cast<command>(at(command_word::kind).load<order::relaxed>()),
                   at(command_word::number).load<order::relaxed>(), text_in(text)};
}

void live_page::acknowledge(std::uint64_t ticket, const absl::Status& status, std::string_view result) {
    std::uint64_t text[result_words];
    put_text(text, result);
    for (std::uint32_t i = 0; i < result_words; ++i) {
        (&at(command_word::result))[i].store<order::relaxed>(text[i]);
    }
    at(command_word::status).store<order::relaxed>(static_cast<std::uint64_t>(status.code()));
    at(command_word::acknowledged).store<order::release>(ticket);  // pairs with the acquire in `live_reader::send`
    answered_.store(ticket, std::memory_order_release);            // pairs with `next_request`
}

}  // namespace orchard::live
