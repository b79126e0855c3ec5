// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.

/// The text of faults that a hardened heap found: `to_text` joins a row of the table below with the fault's numbers.
///
///     use_after_free: the block of 40 bytes at 0x7f3a00200040, allocated by block 0, thread 5, was written after
///     it was freed; found by block 1, thread 7 at device time 12.000000345 s; look for a pointer that is kept after
///     the free

#include "runtime/heap/block_fault.hpp"

#include <array>

#include "absl/strings/str_format.h"

namespace orchard {
namespace {

/// The texts of one kind, in the order in which a message has them.
struct fault_text {
    const char* name;
    const char* happened;
    const char* remedy;
};

// Indexed by block_fault_kind.
constexpr std::array<fault_text, 5> fault_texts{{
    {"none", "is sound", ""},
    {"overflow", "was written behind its end", "look for an index or a length that is too large by this block's users"},
    {"use_after_free", "was written after it was freed", "look for a pointer that is kept after the free"},
    {"double_free", "was freed a second time", "free each block once"},
    {"invalid_free", "is not the beginning of a block in use", "free what malloc of this heap returned, and only once"},
}};
constexpr fault_text unknown_fault{"unknown", "has a fault that this build does not know",
                                   "build device code and host code from the same version"};

/// Returns the texts of a kind; `unknown_fault` for a number that this build does not know, which another version of
/// the device code may have written.
constexpr const fault_text& text_of_kind(block_fault_kind kind) {
    const auto index = static_cast<std::uint32_t>(kind);
    return index < fault_texts.size() ? fault_texts[index] : unknown_fault;
}

}  // namespace

std::string_view name_of(block_fault_kind kind) { return text_of_kind(kind).name; }

/// If the size is not known, neither is the thread that allocated the block: the line then names the address alone.
std::string to_text(const block_fault& fault) {
    const fault_text& kind = text_of_kind(fault.kind);
    const std::string tag = fault.tag != 0 ? absl::StrFormat(" with the tag %d", fault.tag) : "";
    const std::string block =
        fault.bytes != 0
            ? absl::StrFormat("the block of %d bytes%s at %#x, allocated by block %d, thread %d,", fault.bytes, tag,
                              fault.address, fault.allocated_by.block, fault.allocated_by.thread)
            : absl::StrFormat("%#x", fault.address);
    return absl::StrFormat("%s: %s %s; found by block %d, thread %d at device time %d.%09d s; %s", kind.name, block,
                           kind.happened, fault.found_by.block, fault.found_by.thread, fault.time_ns / 1'000'000'000,
                           fault.time_ns % 1'000'000'000, kind.remedy);
}

}  // namespace orchard
