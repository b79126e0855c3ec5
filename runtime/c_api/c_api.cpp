// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.

/// The host's part of orchard/orchard.h, over `heap` and the default heaps. No exception leaves it.

#include <cstring>
#include <exception>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "runtime/default_heap/default_heap.hpp"
#include "runtime/heap/heap.hpp"
#include "runtime/include/orchard/orchard.h"
#include "runtime/machine/version.hpp"
#include "runtime/options/options.hpp"
#include "runtime/statistics/statistics.hpp"

/// A heap that the caller owns, or a default heap, whose `owned` is empty.
struct orchard_heap {
    orchard::heap* of = nullptr;
    std::unique_ptr<orchard::heap> owned;
    std::mutex mutex{};          ///< most functions of `heap` are for one thread at a time
    std::vector<void*> roots{};  ///< the symbols of modules that were bound to a heap of the caller's
};

namespace orchard {
namespace {

/// The texts that the calling thread was given last.
struct texts {
    std::string error;
    std::string text;
};

/// Owns the texts of its thread. A pointer has no destructor: the program may call from handlers of its exit, which run
/// after the main thread's objects are destroyed. The texts are then made anew.
thread_local texts* own_texts = nullptr;
struct texts_owner {
    ~texts_owner() { delete std::exchange(own_texts, nullptr); }
};
thread_local texts_owner owner;

texts& of_this_thread() {
    if (own_texts == nullptr) {
        (void)&owner;  // it is constructed where it is first used
        own_texts = new texts;
    }
    return *own_texts;
}

/// Keeps the message of a status for `orchard_last_error`, and returns its code, which is that of Abseil.
int report(const absl::Status& status) {
    if (!status.ok()) {
        of_this_thread().error = std::string(status.message());
    }
    return static_cast<int>(status.code());
}

/// Runs `call`, which returns a status. An exception becomes an error.
template <class Call>
int guarded(Call call) noexcept {
    try {
        return report(call());
    } catch (const std::bad_alloc&) {
        return static_cast<int>(absl::StatusCode::kResourceExhausted);  // without a text, which needs memory
    } catch (const std::exception& error) {
        return report(absl::InternalError(error.what()));
    } catch (...) {
        return report(absl::InternalError("an exception of an unknown type"));
    }
}

/// Returns an error if there is no heap to work on.
absl::Status check(const orchard_heap* heap) {
    return heap != nullptr && heap->of != nullptr
               ? absl::OkStatus()
               : absl::InvalidArgumentError(
                     "there is no heap: the handle is a null pointer, or that of a default heap that has ended");
}

/// Runs `call` on the heap, beside other calls; it returns a status.
template <class Call>
int beside_others(orchard_heap* heap, Call call) noexcept {
    return guarded([&] {
        const absl::Status status = check(heap);
        return status.ok() ? call(*heap->of) : status;
    });
}

/// The same, one call at a time.
template <class Call>
int on_heap(orchard_heap* heap, Call call) noexcept {
    return beside_others(heap, [&](orchard::heap& of) {
        const std::lock_guard hold(heap->mutex);
        return call(of);
    });
}

/// Runs `call`, which returns a text, and returns the text; null on error.
template <class Call>
const char* text_of(orchard_heap* heap, Call call) noexcept {
    const int failed = on_heap(heap, [&](orchard::heap& of) {
        absl::StatusOr<std::string> text = call(of);
        of_this_thread().text = text.ok() ? *text : "";
        return text.status();
    });
    return failed == 0 ? of_this_thread().text.c_str() : nullptr;
}

/// Returns the options of the environment, changed by `text`, with the device `cuda` unless one is named. Errors: those
/// of `from_environment` and `set`; InvalidArgument for a part without "=".
absl::StatusOr<options> parse(const char* text) {
    auto values = options::from_environment();
    if (!values.ok() || text == nullptr) {
        return values;
    }
    for (const absl::string_view part : absl::StrSplit(text, absl::ByAnyChar(" ,;\t\n"), absl::SkipEmpty())) {
        const std::pair<absl::string_view, absl::string_view> option = absl::StrSplit(part, absl::MaxSplits('=', 1));
        if (part.find('=') == absl::string_view::npos) {
            return absl::InvalidArgumentError(
                absl::StrFormat("options: '%s' has no '='; write name=value, such as capacity=8GiB", part));
        }
        const absl::Status status =
            set(*values, {option.first.data(), option.first.size()}, {option.second.data(), option.second.size()});
        if (!status.ok()) {
            return status;
        }
    }
    return values;
}

/// Implements the functions that make a heap: `create` returns it, for the options that `text` gives.
template <class Create>
int make_handle(const char* caller, const char* text, orchard_heap** handle, Create create) noexcept {
    if (handle == nullptr) {
        return guarded([&] {
            return absl::InvalidArgumentError(absl::StrFormat("%s: no place for the heap; give an address", caller));
        });
    }
    *handle = nullptr;
    return guarded([&]() -> absl::Status {
        auto values = parse(text);
        if (!values.ok()) {
            return values.status();
        }
        if (values->device == device_option::automatic) {
            values->device = device_option::cuda;
        }
        auto made = create(*values);
        if (!made.ok()) {
            return made.status();
        }
        auto result = std::make_unique<orchard_heap>();
        result->owned = std::make_unique<heap>(*std::move(made));
        result->of = result->owned.get();
        *handle = result.release();
        return absl::OkStatus();
    });
}

/// The handles of the default heaps. They are kept until the end of the process, since the program may hold them that
/// long: a handle of a heap that has ended has no heap.
struct default_handles {
    std::mutex mutex;
    std::vector<std::unique_ptr<orchard_heap>> all;

    static default_handles& get() {
        static auto* const handles = new default_handles;
        return *handles;
    }
};

/// Returns the handle of a default heap, always the same one.
orchard_heap* handle_of(heap* of) {
    default_handles& handles = default_handles::get();
    const std::lock_guard hold(handles.mutex);
    for (const auto& handle : handles.all) {
        if (handle->of == of) {
            return handle.get();
        }
    }
    handles.all.push_back(std::make_unique<orchard_heap>());
    handles.all.back()->of = of;
    return handles.all.back().get();
}

/// Takes the heaps, which have ended, from all handles.
void forget_default_heaps() {
    default_handles& handles = default_handles::get();
    const std::lock_guard hold(handles.mutex);
    for (const auto& handle : handles.all) {
        handle->of = nullptr;
    }
}

bool is_empty(const char* text) { return text == nullptr || *text == '\0'; }

/// Returns a JSON string.
std::string json_string(std::string_view text) {
    std::string result = "\"";
    for (const char c : text) {
        if (c == '"' || c == '\\') {
            result += '\\';
            result += c;
        } else if (static_cast<unsigned char>(c) < 0x20) {
            absl::StrAppend(&result, absl::StrFormat("\\u%04x", static_cast<int>(c)));
        } else {
            result += c;
        }
    }
    return result + '"';
}

std::string device_json(const heap& of) {
    std::vector<std::string> warnings;
    for (const std::string& line : of.warnings()) {
        warnings.push_back(json_string(line));
    }
    std::vector<std::string> foreign;
    (void)options::from_environment(&foreign);  // its errors were those of the heap's creation
    for (const std::string& line : foreign) {
        warnings.push_back(json_string(line));
    }
    return absl::StrFormat(R"({"kind": "%s", "gpu": %d, "reason": %s, "warnings": [%s]})", name_of(of.device().kind),
                           of.device().gpu, json_string(of.device().reason), absl::StrJoin(warnings, ", "));
}

}  // namespace
}  // namespace orchard

using orchard::beside_others;
using orchard::guarded;
using orchard::on_heap;

const char* orchard_version(void) { return orchard::version_text.data(); }
const char* orchard_last_error(void) { return orchard::of_this_thread().error.c_str(); }

int orchard_heap_create(const char* options, orchard_heap** heap) {
    return orchard::make_handle("orchard_heap_create", options, heap,
                                [](const orchard::options& values) { return orchard::heap::create(values); });
}

int orchard_heap_create_in(void* memory, size_t bytes, const char* options, orchard_heap** heap) {
    return orchard::make_handle("orchard_heap_create_in", options, heap, [&](const orchard::options& values) {
        return orchard::heap::create_in(memory, bytes, values);
    });
}

void orchard_heap_destroy(orchard_heap* heap) {
    if (heap != nullptr && heap->owned != nullptr) {
        // Otherwise later kernels of these modules would use the heap's memory.
        for (void* const root : heap->roots) {
            orchard::unbind_root(*heap->of, root);
        }
        delete heap;
    }
}

const char* orchard_heap_stats(orchard_heap* heap) {
    return orchard::text_of(heap, [](orchard::heap& of) -> absl::StatusOr<std::string> {
        const auto counts = of.stats();
        return counts.ok() ? absl::StatusOr<std::string>(orchard::to_json(*counts)) : counts.status();
    });
}

const char* orchard_heap_device(orchard_heap* heap) {
    return orchard::text_of(heap,
                            [](orchard::heap& of) -> absl::StatusOr<std::string> { return orchard::device_json(of); });
}

const char* orchard_heap_last_failure(orchard_heap* heap) {
    return orchard::text_of(heap, [](orchard::heap& of) -> absl::StatusOr<std::string> {
        const auto last = of.last_failure();
        return last ? orchard::to_text(*last) : std::string();
    });
}

int orchard_heap_dump(orchard_heap* heap, const char* path) {
    return on_heap(heap, [&](orchard::heap& of) {
        return path != nullptr && *path != '\0'
                   ? of.dump(path)
                   : absl::InvalidArgumentError("orchard_heap_dump: no path; name the file to write");
    });
}

int orchard_heap_ref(orchard_heap* heap, void* ref, size_t bytes) {
    return beside_others(heap, [&](orchard::heap& of) -> absl::Status {
        if (ref == nullptr || bytes != sizeof(orchard::heap_ref)) {
            return absl::InvalidArgumentError(
                absl::StrFormat("orchard_heap_ref: %d bytes at %p; an orchard::heap_ref of this version (%s) has %d",
                                bytes, ref, orchard::version_text, sizeof(orchard::heap_ref)));
        }
        if (of.device().kind != orchard::simt::device_kind::cuda) {
            return absl::FailedPreconditionError(
                "orchard_heap_ref: the heap is on the emulated device; make it with the option device=cuda");
        }
        const orchard::heap_ref view = of.ref();
        std::memcpy(ref, static_cast<const void*>(&view), sizeof(view));
        return absl::OkStatus();
    });
}

int orchard_heap_trim(orchard_heap* heap) {
    return on_heap(heap, [](orchard::heap& of) { return of.trim(); });
}

int orchard_heap_reserve(orchard_heap* heap, size_t bytes) {
    return on_heap(heap, [&](orchard::heap& of) { return of.reserve(bytes); });
}

int orchard_heap_mark_live_blocks(orchard_heap* heap, size_t* count) {
    return on_heap(heap, [&](orchard::heap& of) {
        const auto marked = of.mark_live_blocks();
        if (count != nullptr) {
            *count = marked.ok() ? static_cast<size_t>(*marked) : 0;
        }
        return marked.status();
    });
}

int orchard_heap_unmark_live_blocks(orchard_heap* heap) {
    return on_heap(heap, [](orchard::heap& of) {
        of.unmark_live_blocks();
        return absl::OkStatus();
    });
}

int orchard_heap_set_device_budget(orchard_heap* heap, size_t bytes) {
    return on_heap(heap, [&](orchard::heap& of) { return of.set_device_budget(bytes); });
}

int orchard_heap_migrate(orchard_heap* heap, void* stream) {
    return on_heap(heap, [&](orchard::heap& of) { return of.migrate(stream).status(); });
}

int orchard_heap_prefetch(orchard_heap* heap, void* p, size_t bytes) {
    return on_heap(heap, [&](orchard::heap& of) { return of.prefetch(p, bytes); });
}

int orchard_heap_demote(orchard_heap* heap, void* p, size_t bytes) {
    return on_heap(heap, [&](orchard::heap& of) { return of.demote(p, bytes); });
}

int orchard_heap_validate(orchard_heap* heap) {
    return on_heap(heap, [](orchard::heap& of) { return of.validate(); });
}

void* orchard_heap_allocate(orchard_heap* heap, size_t bytes) {
    void* block = nullptr;
    (void)beside_others(heap, [&](orchard::heap& of) {
        const auto made = of.allocate_on_host(bytes);
        block = made.ok() ? *made : nullptr;
        return made.status();
    });
    return block;
}

int orchard_heap_free(orchard_heap* heap, void* block) {
    return beside_others(heap, [&](orchard::heap& of) { return of.free_on_host(block); });
}

int orchard_init(const char* options) {
    return guarded([&]() -> absl::Status {
        if (orchard::is_empty(options)) {
            return orchard::retry_default_heap().status();  // binds modules that have come since
        }
        const auto values = orchard::parse(options);
        return values.ok() ? orchard::init_default_heap(*values).status() : values.status();
    });
}

orchard_heap* orchard_default_heap(void) {
    orchard_heap* handle = nullptr;
    (void)guarded([&] {
        const auto found = orchard::existing_default_heap();
        handle = found.ok() ? orchard::handle_of(*found) : nullptr;
        return found.status();
    });
    return handle;
}

int orchard_shutdown(void) {
    return guarded([] {
        const absl::Status ended = orchard::end_default_heaps();
        orchard::forget_default_heaps();
        return ended;
    });
}

int orchard_heap_bind(orchard_heap* heap, void* root, size_t bytes) {
    return guarded([&] {
        const absl::Status status = orchard::bind_root(heap != nullptr ? heap->of : nullptr, root, bytes);
        if (status.ok() && heap != nullptr && heap->owned != nullptr) {
            const std::lock_guard hold(heap->mutex);
            heap->roots.push_back(root);
        }
        return status;
    });
}
