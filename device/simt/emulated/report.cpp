// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.

/// The texts of a launch's errors; see report.hpp.
///
/// Each text names the call, its place in the source and the lanes, and the usual remedy if there is one. Lanes appear
/// as masks, so that 32 of them that wait together take one line.

#include "device/simt/emulated/report.hpp"

#include <absl/strings/str_cat.h>
#include <absl/strings/str_format.h>

#include <algorithm>

namespace orchard::simt::emulated {

namespace {

// The most lines about waits in one error, so that the error of a block of 1024 lanes that is stuck in many groups
// stays readable.
constexpr int max_lines = 64;

/// Returns a call and its place, such as "ballot (file.cu:12)".
std::string describe_site(const meeting& at) {
    return absl::StrFormat("%s (%s:%d)", name_of(at.kind), at.where.file, at.where.line);
}

/// Returns the lanes of `among` that wait in the same way as `lane`.
lane_mask same_wait(const warp& of, int lane, lane_mask among) {
    lane_mask result = 0;
    for_each_lane(among, [&](int l) { result |= of.wait_of(l).at == of.wait_of(lane).at ? lane_mask{1} << l : 0; });
    return result;
}

/// Returns where the lanes of `lanes` are: "0x00000004 ended, 0x00000008 at sync (f:3) for mask 0x0000000c". Lanes in
/// the same place form one group; commas separate the groups.
std::string describe_whereabouts(const warp& of, lane_mask lanes) {
    std::string text;
    const auto add = [&text](lane_mask group, std::string_view where) {
        if (group != 0) {
            absl::StrAppendFormat(&text, "%s0x%08x %s", text.empty() ? "" : ", ", group,
                                  absl::string_view(where.data(), where.size()));
        }
    };
    add(lanes & ~of.present(), "not in this block");
    add(lanes & of.ended(), "ended");
    add(lanes & of.runnable(), "running");
    // These two wait without a mask.
    for (lane_mask rest = lanes & (of.paused() | of.converging()); rest != 0;) {
        const lane_mask group = same_wait(of, std::countr_zero(rest), rest);
        add(group, absl::StrCat("at ", describe_site(of.wait_of(std::countr_zero(rest)).at)));
        rest &= ~group;
    }
    for (lane_mask rest = lanes & of.meeting_lanes(); rest != 0;) {
        const meeting& at = of.wait_of(std::countr_zero(rest)).at;
        const lane_mask group = same_wait(of, std::countr_zero(rest), rest);
        add(group, absl::StrFormat("at %s for mask 0x%08x", describe_site(at), at.mask));
        rest &= ~group;
    }
    return text;
}

}  // namespace

std::string describe_waits(const warp& of, std::uint32_t block, std::uint32_t warp_index) {
    std::string text;
    // One line for each collective in which lanes wait, with the lanes that have not come to it.
    for (lane_mask rest = of.meeting_lanes(); rest != 0;) {
        const int first = std::countr_zero(rest);
        const meeting& at = of.wait_of(first).at;
        const lane_mask group = of.companions_of(first);
        absl::StrAppendFormat(&text, "  block %d, warp %d: lanes 0x%08x wait at %s for mask 0x%08x; missing %s\n",
                              block, warp_index, group, describe_site(at), at.mask,
                              describe_whereabouts(of, at.mask & ~group));
        rest &= ~group;
    }
    // One line for all others that wait: they are not the cause, but show how far they have come.
    const lane_mask others = of.paused() | of.converging();
    if (others != 0) {
        absl::StrAppendFormat(&text, "  block %d, warp %d: %s\n", block, warp_index, describe_whereabouts(of, others));
    }
    return text;
}

std::string describe_rejection(refusal why, const warp& of, const meeting& at, int source, std::uint32_t block,
                               std::uint32_t thread) {
    // Every text begins with the caller and its call; the cases add the reason.
    const std::uint32_t lane = thread % warp_size;
    std::string text = absl::StrFormat("block %d, thread %d (warp %d, lane %d): %s ", block, thread, thread / warp_size,
                                       lane, describe_site(at));
    switch (why) {
        case refusal::caller_not_in_mask:
            absl::StrAppendFormat(&text,
                                  "with mask 0x%08x, which does not name its caller, lane %d: a lane may only "
                                  "call it with a mask that it is in",
                                  at.mask, lane);
            break;
        case refusal::source_not_in_mask:
            absl::StrAppendFormat(&text, "reads from lane %d, which is not in its mask 0x%08x", source, at.mask);
            break;
        case refusal::lane_absent:
            absl::StrAppendFormat(&text,
                                  "with mask 0x%08x names lanes 0x%08x, which this warp of %d lanes does not "
                                  "have: take the mask from converge()",
                                  at.mask, at.mask & ~of.present(), std::popcount(of.present()));
            break;
        case refusal::lane_ended:
            absl::StrAppendFormat(&text,
                                  "with mask 0x%08x names lanes 0x%08x, which have ended: take the mask from "
                                  "converge()",
                                  at.mask, at.mask & of.ended());
            break;
        case refusal::none: break;
    }
    return text;
}

std::string describe_early_end(const warp& of, std::uint32_t block, std::uint32_t thread) {
    return absl::StrFormat("block %d, thread %d (warp %d, lane %d) ended while others wait for it in a collective:\n%s",
                           block, thread, thread / warp_size, thread % warp_size,
                           describe_waits(of, block, thread / warp_size));
}

std::string describe_stuck(std::span<const warp> warps, std::uint32_t block) {
    std::string text = absl::StrFormat(
        "block %d: lanes wait for each other and none of them can go on. All lanes named in a mask must call the same "
        "collective, with the same mask, at the same line:\n",
        block);
    int lines = 0;
    // Warps without a stuck lane are left out. The limit is checked before each warp, so that no warp's text is cut.
    for (std::size_t w = 0; w < warps.size(); ++w) {
        if (warps[w].stuck() == 0) {
            continue;
        }
        if (lines >= max_lines) {
            absl::StrAppend(&text, "  ... and further warps\n");
            break;
        }
        const std::string waits = describe_waits(warps[w], block, static_cast<std::uint32_t>(w));
        lines += static_cast<int>(std::count(waits.begin(), waits.end(), '\n'));
        text += waits;
    }
    return text;
}

}  // namespace orchard::simt::emulated
