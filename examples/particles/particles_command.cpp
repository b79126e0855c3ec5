// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.

/// `orchard particles`: a particle shower, whose number of secondaries is not known before, in a heap that goes beyond
/// the device's budget, beside the same in a fixed pool of the device's budget, which ends when no slot is left.

#include <CLI/CLI.hpp>
#include <memory>
#include <set>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "examples/particles/shower_run.hpp"
#include "examples/report/checked_command.hpp"
#include "runtime/cli/options_cli.hpp"
#include "runtime/cli/program_heap.hpp"
#include "runtime/options/byte_size.hpp"
#include "runtime/text/text_table.hpp"

namespace orchard::examples {
namespace {

using nlohmann::ordered_json;

struct particle_arguments {
    shower_options shower;
    std::uint64_t primaries = 0;  ///< 0: by the device
    std::uint64_t energy_mev = 100;
    std::uint64_t pool = 0;  ///< slots; 0: as many as fit the device's budget
    options heap;
    std::set<std::string> given;  ///< options of the heap that a flag or a variable sets
    command_line::json_option json;
    bool quiet = false;
};

/// All that was run.
struct particle_runs {
    device_choice device;
    shower_result heap;
    shower_result pool;
    host_shower host;
    statistics at_end;
    std::uint64_t slots = 0;
    std::vector<check> checks;
};

std::uint64_t sum_of(const shower_totals& t) {
    std::uint64_t all = 0;
    for (const std::uint64_t kev : t.deposited_kev) {
        all += kev;
    }
    return all;
}

/// Sets what no flag and no variable has: a heap whose device holds a part of the shower, and whose host the rest.
void choose_sizes(particle_arguments& a, simt::device_kind device) {
    a.shower.primaries = a.primaries != 0 ? a.primaries : device == simt::device_kind::cuda ? 8192 : 64;
    a.shower.rule.energy_kev = a.energy_mev * 1000;
    if (!a.given.contains("backing")) {
        a.heap.backing = backing_option::elastic;
    }
    if (!a.given.contains("capacity")) {
        a.heap.capacity = std::max<std::uint64_t>(16 * mib, a.shower.primaries * 256 * kib);
    }
    if (a.heap.backing == backing_option::elastic) {
        if (!a.given.contains("host_budget")) {
            a.heap.host_budget = 15 * a.heap.capacity;
        }
        if (!a.given.contains("move_unit") && a.heap.host_budget != 0) {
            a.heap.move_unit = 2 * mib;
        }
    }
}

std::vector<check> check_runs(const particle_runs& r, const shower_options& shower, const absl::Status& valid) {
    const shower_result& h = r.heap;
    const double all = static_cast<double>(shower.primaries * shower.rule.energy_kev);
    std::uint64_t peak_host = 0;
    for (const shower_pass& p : h.passes) {
        peak_host = std::max(peak_host, p.host_bytes);
    }
    return {{"followed to their ends", h.is_complete,
             h.is_complete ? absl::StrFormat("%d particles, at most %d at once", h.totals.particles, h.peak_alive)
                           : absl::StrFormat("the heap ran short in kernel %d: %s", h.passes.size(), h.why)},
            {"same sums as on the host", h.totals == r.host.totals,
             absl::StrFormat("%d steps; %d of %d keV in %d layers", h.totals.steps, sum_of(h.totals),
                             sum_of(r.host.totals), shower_layers)},
            {"no track is written over", h.wrong == 0 && r.pool.wrong == 0,
             absl::StrFormat("%d wrong records in the heap, %d in the pool", h.wrong, r.pool.wrong)},
            {"the heap is whole, and empty", valid.ok() && r.at_end.pages_in_use == 0 && r.at_end.segments_granted == 0,
             valid.ok() ? absl::StrFormat("%s committed after all was freed", format_bytes(r.at_end.committed_bytes))
                        : std::string(valid.message())},
            {"memory of the host was used", peak_host != 0,
             absl::StrFormat("%s beyond the device's budget; given back at the end", format_bytes(peak_host)), false},
            {"a fixed pool ends too early", !r.pool.is_complete,
             r.pool.is_complete
                 ? absl::StrFormat("its %d slots were enough: at most %d were used", r.slots, r.pool.peak_alive)
                 : absl::StrFormat("no slot of %d was left in kernel %d, with %.1f %% of the energy deposited", r.slots,
                                   r.pool.passes.size(), 100 * static_cast<double>(sum_of(r.pool.totals)) / all),
             false}};
}

/// Returns `width` characters: one for each part of `most` that is in use on the device (#) and on the host (+).
std::string memory_bar(std::uint64_t device, std::uint64_t host, std::uint64_t most) {
    constexpr std::uint64_t width = 40;
    const std::uint64_t filled = most == 0 ? 0 : device * width / most;
    const std::uint64_t all = most == 0 ? 0 : (device + host) * width / most;
    return std::string(filled, '#') + std::string(all - filled, '+');
}

std::string passes_text(const shower_result& r) {
    std::uint64_t most = 0;
    for (const shower_pass& p : r.passes) {
        most = std::max(most, p.device_bytes + p.host_bytes);
    }
    std::vector<std::vector<std::string>> lines{
        {"kernel", "alive", "kernel ms", "device", "host", "moved", "memory: # device, + host"}};
    constexpr std::size_t most_lines = 20;
    const std::size_t every = (r.passes.size() + most_lines - 1) / most_lines;
    for (std::size_t i = 0; i < r.passes.size(); ++i) {
        const shower_pass& p = r.passes[i];
        if (i % every == 0 || i + 1 == r.passes.size()) {
            lines.push_back({absl::StrCat(i + 1), absl::StrCat(p.alive), absl::StrFormat("%.3f", p.kernel_us * 1e-3),
                             format_bytes(p.device_bytes), format_bytes(p.host_bytes), format_bytes(p.moved_bytes),
                             memory_bar(p.device_bytes, p.host_bytes, most)});
        }
    }
    return detail::in_columns(lines, "rrrrrrl");
}

std::string to_text(const particle_arguments& a, const particle_runs& r) {
    std::string text = absl::StrFormat(
        "shower   %d primaries of %d MeV, cutoff %d keV, seed %d; tracks of %d B\n"
        "device   %s (%s)\n"
        "heap     %s on the device, %s on the host\n\n",
        a.shower.primaries, a.energy_mev, a.shower.rule.cutoff_kev, a.shower.rule.seed, a.shower.track_bytes,
        name_of(r.device.kind), r.device.reason, format_bytes(a.heap.capacity), format_bytes(a.heap.host_budget));
    absl::StrAppend(&text, passes_text(r.heap));
    for (const auto& [name, run] : {std::pair{"heap", &r.heap}, std::pair{"pool", &r.pool}}) {
        absl::StrAppendFormat(&text, "%s%s: %d steps in %d kernels of %.3f s, %.3f s in all\n",
                              run == &r.heap ? "\n" : "", name, run->totals.steps, run->passes.size(),
                              run->kernel_seconds, run->seconds);
    }
    return text + "\n";
}

ordered_json json_of(const shower_result& r) {
    ordered_json passes = ordered_json::array();
    for (const shower_pass& p : r.passes) {
        passes.push_back({{"alive", p.alive},
                          {"kernel_us", p.kernel_us},
                          {"device_bytes", p.device_bytes},
                          {"host_bytes", p.host_bytes},
                          {"moved_bytes", p.moved_bytes}});
    }
    return {{"complete", r.is_complete},
            {"particles", r.totals.particles},
            {"ended", r.totals.ended},
            {"steps", r.totals.steps},
            {"deposited_kev", sum_of(r.totals)},
            {"peak_alive", r.peak_alive},
            {"refused", r.refused},
            {"kernel_seconds", r.kernel_seconds},
            {"seconds", r.seconds},
            {"why", r.why},
            {"passes", std::move(passes)}};
}

/// Returns the members of the document, without the checks.
ordered_json members(const particle_arguments& a, const particle_runs& r) {
    return {{"primaries", a.shower.primaries},
            {"energy_mev", a.energy_mev},
            {"cutoff_kev", a.shower.rule.cutoff_kev},
            {"seed", a.shower.rule.seed},
            {"track_bytes", a.shower.track_bytes},
            {"device_budget_bytes", a.heap.capacity},
            {"host_budget_bytes", a.heap.host_budget},
            {"pool_slots", r.slots},
            {"heap", json_of(r.heap)},
            {"pool", json_of(r.pool)},
            {"statistics", command_line::json_of(r.at_end)}};
}

absl::StatusOr<particle_runs> execute(particle_arguments& a) {
    particle_runs r;
    const auto device = choose_device(a.heap.device);
    if (!device.ok()) {
        return device.status();
    }
    r.device = *device;
    choose_sizes(a, device->kind);
    r.slots = a.pool != 0 ? a.pool : a.heap.capacity / a.shower.track_bytes;
    // The primaries alone first: the host's run of a shower that is far too large would take long.
    absl::Status fits = check_shower_memory(a.shower, a.shower.primaries, a.heap, device->kind, r.slots);
    if (fits.ok()) {
        r.host = run_on_host(a.shower);
        fits = check_shower_memory(a.shower, r.host.most_tracks, a.heap, device->kind, r.slots);
    }
    if (!fits.ok()) {
        return fits;
    }
    command_line::progress bar(!a.quiet);
    auto h = command_line::create_heap(a.heap);
    if (!h.ok()) {
        return h.status();
    }
    auto in_heap = run_in_heap(*h, a.shower, bar);
    if (!in_heap.ok()) {
        return in_heap.status();
    }
    r.heap = *std::move(in_heap);
    const auto at_end = h->stats();
    if (!at_end.ok()) {
        return at_end.status();
    }
    r.at_end = *at_end;
    const absl::Status valid = h->validate();
    auto in_pool = run_in_pool(h->executor(), r.slots, a.shower, bar);
    if (!in_pool.ok()) {
        return in_pool.status();
    }
    r.pool = *std::move(in_pool);
    r.checks = check_runs(r, a.shower, valid);
    return r;
}

void declare(CLI::App& app, particle_arguments& a) {
    app.add_option("--primaries", a.primaries,
                   "Particles at the beginning (1 to 16,777,216); 64 on the emulated device, 8,192 on a GPU")
        ->type_name("N")
        ->check(CLI::Range(std::uint64_t{1}, std::uint64_t{1} << 24).description(""));
    app.add_option("--energy", a.energy_mev, "Energy of each, in MeV (1 to 1,000,000)")
        ->type_name("MEV")
        ->capture_default_str()
        ->check(CLI::Range(std::uint64_t{1}, std::uint64_t{1'000'000}).description(""));
    app.add_option("--cutoff", a.shower.rule.cutoff_kev, "Energy below which a particle ends, in keV (1 to 1,000,000)")
        ->type_name("KEV")
        ->capture_default_str()
        ->check(CLI::Range(std::uint64_t{1}, std::uint64_t{1'000'000}).description(""));
    app.add_option("--track-bytes", a.shower.track_bytes, "Size of a track: a multiple of 16 (48 to 65,536)")
        ->type_name("BYTES")
        ->capture_default_str()
        ->check(CLI::Range(std::uint64_t{48}, std::uint64_t{65'536}).description(""));
    app.add_option("--steps", a.shower.steps, "Steps of each particle in one kernel (1 to 1,000,000)")
        ->type_name("N")
        ->capture_default_str()
        ->check(CLI::Range(std::uint32_t{1}, std::uint32_t{1'000'000}).description(""));
    app.add_option("--seed", a.shower.rule.seed, "Seed of the shower")->type_name("N")->capture_default_str();
    app.add_option("--pool", a.pool, "Tracks of the fixed pool; as many as fit the device's budget unless given")
        ->type_name("N")
        ->check(CLI::Range(std::uint64_t{1}, std::uint64_t{0xffffffff}).description(""));
    command_line::add_json(app, a.json, "Write the result");
    app.add_flag("--quiet", a.quiet, "Print the checks alone, and no progress bar");
    add_to(app, a.heap);
    app.footer(
        "Unless given: backing elastic, capacity 256 KiB a primary (16 MiB or more), host_budget 15 times as much, "
        "move_unit 2 MiB.");
    app.parse_complete_callback([&app, &a] { a.given = given_options(app); });
}

command_line::subcommand particles_command() {
    const auto a = std::make_shared<particle_arguments>();
    return {"particles", "A particle shower beyond the device's budget, beside a fixed pool that ends", "Examples",
            [a](CLI::App& app) { declare(app, *a); },
            [a] {
                if (a->shower.track_bytes % 16 != 0) {
                    return command_line::exit_code(absl::InvalidArgumentError(
                        absl::StrFormat("--track-bytes %d is no multiple of 16; give %d", a->shower.track_bytes,
                                        (a->shower.track_bytes + 15) / 16 * 16)));
                }
                return run_checked(*a, execute, to_text, members);
            }};
}

const command_line::registrar particles_command_registered{particles_command};

}  // namespace
}  // namespace orchard::examples
