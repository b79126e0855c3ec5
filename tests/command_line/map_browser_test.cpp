// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.

// The page of a map in a browser without a window: its script runs, and finds in the map what the program knows.
// Skipped where there is no Chromium (Debian's package `chromium`, which nothing else needs, so that it is not
// installed).

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <memory>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_split.h"
#include "runtime/cli/map/map_page.hpp"

namespace orchard::command_line {
namespace {

using testing::HasSubstr;

/// Returns the path of a browser; empty if there is none.
std::string find_browser() {
    const char* const path = std::getenv("PATH");
    for (const absl::string_view folder : absl::StrSplit(path != nullptr ? path : "", ':')) {
        for (const char* const name : {"chromium", "chromium-browser", "google-chrome"}) {
            const std::string candidate = absl::StrCat(folder, "/", name);
            if (::access(candidate.c_str(), X_OK) == 0) {
                return candidate;
            }
        }
    }
    return "";
}

/// Returns a map of `segments` segments: a slab half in use, a chunk with a tail, and so on over and over.
heap_map repeated(std::uint32_t segments) {
    heap_map map;
    map.program = "0.1.0";
    map.device = "emulated";
    map.backing = "elastic";
    map.policy = "default";
    map.layout = "automatic";
    map.segments = segments;
    map.is_exact = true;
    std::uint32_t i = 0;
    for (; i + 8 <= segments; i += 8) {
        map.uses.insert(map.uses.end(), {{segment_use::slab, 2},
                                         {segment_use::chunk, 2},
                                         {segment_use::portions, 1},
                                         {segment_use::free, 1},
                                         {segment_use::cached, 1},
                                         {segment_use::held, 1}});
        map.slabs.push_back({i, 2, 4, 13'107});
        map.chunks.push_back({(i + 2) * 32, 2, 5, (i + 4) * 32, 32, 7, false, 4'300'000});
        map.portions.push_back({(i + 4) * 32, 5, portion_use::tail});
        map.extents.push_back({i, 8, map_tier::device});
    }
    map.uses.push_back({segment_use::uncommitted, segments - i});
    map.tiers = {{0, i - 8, map_tier::device}, {i - 8, 8, map_tier::host}};
    return map;
}

class map_browser : public testing::Test {
protected:
    void SetUp() override {
        browser_ = find_browser();
        if (browser_.empty()) {
            GTEST_SKIP() << "there is no chromium";
        }
        std::filesystem::create_directory(folder_);
    }
    ~map_browser() override { std::filesystem::remove_all(folder_); }

    /// Returns the document that the page is after its script, and after `more`, a script behind it.
    std::string document_of(const heap_map& map, const std::string& hash = "", const std::string& more = "") {
        const std::string page = folder_ + "/map.html";
        std::ofstream(page) << map_page(map) << "<script>" << more << "</script>";
        const std::string command = absl::StrFormat(
            "timeout 100 '%s' --headless --no-sandbox --disable-gpu --user-data-dir='%s/profile' "
            "--window-size=1400,900 "
            "--dump-dom 'file://%s%s' 2>'%s/errors'",
            browser_, folder_, page, hash, folder_);
        std::string document;
        const std::unique_ptr<FILE, int (*)(FILE*)> from(::popen(command.c_str(), "r"), ::pclose);
        char buffer[1 << 16];
        for (std::size_t n = 0; from != nullptr && (n = std::fread(buffer, 1, sizeof(buffer), from.get())) != 0;) {
            document.append(buffer, n);
        }
        return document;
    }

    std::string browser_;
    std::string folder_ = absl::StrCat(testing::TempDir(), "map_browser_", ::getpid());
};

/// Returns what follows the data, which is what the script has made.
std::string made(const std::string& document) {
    return document.substr(0, document.find("<script type=\"application/json\" id=\"map\">"));
}

TEST_F(map_browser, shows_totals_and_a_segment) {
    const std::string slab = made(document_of(repeated(100), "#segment=1"));
    EXPECT_THAT(slab, HasSubstr("data-ready=\"1\"")) << "the script has failed";
    EXPECT_THAT(slab, HasSubstr("slab of pages of 80 B: 13,107 of 26,214 pages in use (50 %)"));
    EXPECT_THAT(slab, HasSubstr("memory: device; committed with segments 0 to 7 (16 MiB)"));
    // 12 times 8 segments.
    EXPECT_THAT(slab, HasSubstr("slab</td><td>24</td><td>48 MiB</td><td>25 %</td>"));
    EXPECT_THAT(slab, HasSubstr("committed</td><td>96</td><td>192 MiB</td>"));
    EXPECT_THAT(slab, HasSubstr("tails of chunks</td><td>12</td><td>3.75 MiB</td>"));
    EXPECT_THAT(slab, HasSubstr("blocks</td><td>12</td><td>84 of 384</td><td>49.2 MiB</td><td>51.8 MiB</td>"));
    EXPECT_THAT(slab, HasSubstr("They agree with the heap's statistics."));
    const std::string tail = made(document_of(repeated(100), "#segment=92"));
    EXPECT_THAT(tail, HasSubstr("1 portion in 5 of 32 leaves:\nleaves 0 to 4: tail of the chunk at segment 90"));
    EXPECT_THAT(tail, HasSubstr("memory: host"));
    const std::string chunk = made(document_of(repeated(100), "#segment=91&mode=tier"));
    EXPECT_THAT(chunk, HasSubstr("chunk: 2 segments and 5 leaves; blocks of 32 lanes, 7 not freed; 4.10 MiB asked for, "
                                 "4.31 MiB held\nsegment 2 of 2; it begins at segment 90"));
    EXPECT_THAT(made(document_of(repeated(100), "#segment=99")), HasSubstr("has no memory"));
}

// Sends what a mouse and a keyboard would send. Texts that the page then has are put behind one another in the title.
constexpr char user[] = R"JS(
const texts = [], told = () => texts.push($('tip').style.display + ':' + $('tip').textContent.split('\n')[0]);
const send = (type, x, y, more) => canvas.dispatchEvent(new (type === 'wheel' ? WheelEvent : PointerEvent)(type,
  { clientX: canvas.getBoundingClientRect().left + x, clientY: canvas.getBoundingClientRect().top + y, bubbles: true,
    cancelable: true, ...more }));
canvas.setPointerCapture = () => {};
const near = side / ratio / 2;
send('pointermove', left + near, near);                       // the first segment
told();
send('pointermove', left + 3 * near, near);                   // the second
told();
const before = side;
send('wheel', left + 3 * near, near, { deltaY: -400 });       // nearer, around the same place
texts.push(side > 2 * before);
send('pointermove', left + 3 * near, near);
told();
send('pointerdown', left + 3 * near, near);
send('pointerup', left + 3 * near, near);                     // a click keeps it
send('pointermove', 5, 5);                                    // beside the segments
told();
texts.push($('details').textContent.split('\n')[0], location.hash);
const x = x0;
send('pointerdown', 300, 200);
send('pointermove', 200, 200);                                // a drag moves the picture
send('pointerup', 200, 200);
texts.push(x0 - x, kept);
document.dispatchEvent(new KeyboardEvent('keydown', { key: '0' }));
texts.push(side === before);
document.dispatchEvent(new KeyboardEvent('keydown', { key: 'Escape' }));
texts.push(kept);
const pixel = (px, py) => [...context.getImageData(px, py, 1, 1).data.slice(0, 3)].join(' ');
draw();
texts.push(pixel(x0 + side / 2, y0 + side - 4));              // the filled part of a slab of class 4
$('mode').value = 'tier';
$('mode').onchange();
draw();
texts.push(pixel(x0 + side / 2, y0 + side / 2));              // on the device
$('whole').checked = true;
$('whole').onchange();
texts.push(shown);
zoom(2, 300, 200);
const large = side;
window.dispatchEvent(new Event('resize'));                    // what was zoomed stays so
texts.push(side === large);
document.title = texts.join('|');
)JS";

TEST_F(map_browser, follows_the_pointer_and_the_keyboard) {
    const std::string page = document_of(repeated(100), "", user);
    const std::size_t begin = page.find("<title>") + 7;
    const std::string title = page.substr(begin, page.find("</title>") - begin);
    EXPECT_EQ(title,
              "block:segment 0, 0 B from the heap's first byte|block:segment 1, 2 MiB from the heap's first byte|true|"
              "block:segment 1, 2 MiB from the heap's first byte|none:segment 1, 2 MiB from the heap's first byte|"
              "segment 1, 2 MiB from the heap's first byte|#segment=1|-100|1|true|-1|30 60 133|76 159 112|100|true");
}

TEST_F(map_browser, shows_a_tebibyte) {
    const std::string page = made(document_of(repeated(524'288 + 5), "#segment=524287"));
    EXPECT_THAT(page, HasSubstr("data-ready=\"1\""));
    EXPECT_THAT(page, HasSubstr("segment 524,287, 1,024 GiB from the heap's first byte"));
    EXPECT_THAT(page, HasSubstr("committed</td><td>524,288</td><td>1 TiB</td>"));
}

TEST_F(map_browser, shows_a_heap_without_memory) {
    heap_map map;
    map.segments = 8;
    map.uses = {{segment_use::uncommitted, 8}};
    const std::string page = made(document_of(map));
    EXPECT_THAT(page, HasSubstr("data-ready=\"1\""));
    EXPECT_THAT(page, HasSubstr("Kernels ran while this map was made"));
}

}  // namespace
}  // namespace orchard::command_line
