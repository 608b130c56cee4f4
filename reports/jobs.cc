#include "reports/jobs.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "lib/base/path_name.h"
#include "lib/base/units.h"
#include "lib/base/utf8.h"
#include "reports/document/text_layout.h"
#include "reports/document/text_page.h"

namespace dlprobe {
namespace {

std::string job_row(const std::vector<std::string>& cells, const std::vector<size_t>& widths) {
  std::string row;
  for (size_t i = 0; i < widths.size(); ++i) {
    const size_t columns = columns_of(cells[i]);
    row += cells[i] + std::string(widths[i] - std::min(widths[i], columns) + 2, ' ');
  }
  return row;
}

// A program that stands in the command line (python -c) has many lines. The script tells the job,
// not the folder of its interpreter.
std::string command_text(std::vector<std::string> command) {
  constexpr size_t kMostColumns = 160;
  if (!command.empty()) command.front() = base_name(command.front());
  std::string text = fmt::format("{}", fmt::join(command, " "));
  std::ranges::replace(text, '\n', ' ');
  size_t bytes = 0;
  for (size_t i = 0; i < kMostColumns && bytes < text.size(); ++i)
    bytes += decode_utf8(std::string_view(text).substr(bytes)).bytes;
  return shown(text.substr(0, bytes)) + (bytes < text.size() ? "..." : "");
}

std::string state_text(const report::Job& job) {
  const std::string wait = job.longest_wait_s ? ", " + number_text(job.longest_wait_s, "s") : "";
  return shown(job.state) + wait;
}

std::vector<std::string> job_cells(const report::Job& job) {
  return {std::to_string(job.pid),
          shown(job.user),
          number_text(job.age_s, "s"),
          job.ranks == 0 ? "-" : std::to_string(job.ranks),
          fmt::format("{}{}", job.workers, job.is_pool ? " (pool)" : ""),
          bytes_text(job.shm_bytes),
          state_text(job),
          command_text(job.cmdline)};
}

void add_orphans(TextPage& page, const std::vector<report::OrphanedWorker>& orphans) {
  if (orphans.empty()) return;
  std::string pids;
  for (const report::OrphanedWorker& orphan : orphans)
    pids += fmt::format(" {}", orphan.pid);
  const auto oldest = std::ranges::max_element(orphans, {}, &report::OrphanedWorker::age_s);
  page.paragraph("",
                 fmt::format("workers without a trainer: {}, the oldest of {} started {} ago",
                             orphans.size(), shown(oldest->user), number_text(oldest->age_s, "s")));
  page.paragraph("    $ ", fmt::format("dlprobe attach {}", oldest->pid));
  page.paragraph("    $ ", "kill" + pids);
}

std::string render_jobs(const AnyDocument& document, const TextOptions& options) {
  const auto& jobs = std::get<report::Jobs>(document);
  TextPage page(options);
  std::vector<std::vector<std::string>> rows = {
      {"pid", "user", "age", "ranks", "workers", "/dev/shm", "state", "command"}};
  for (const report::Job& job : jobs.jobs)
    rows.push_back(job_cells(job));
  std::vector<size_t> widths(rows.front().size() - 1);
  for (const auto& row : rows) {
    for (size_t i = 0; i < widths.size(); ++i)
      widths[i] = std::max(widths[i], columns_of(row[i]));
  }
  if (rows.size() == 1) {
    page.paragraph("", "no job on this machine loads data by worker processes");
  } else {
    for (const auto& row : rows)
      page.paragraph(job_row(row, widths), row.back());
  }
  add_orphans(page, report::items_of(jobs.orphaned_workers));
  if (jobs.unseen_processes > 0) {
    page.paragraph("", fmt::format("jobs may be missing: dlprobe may not look into {}",
                                   std::string(counted(jobs.unseen_processes, "process"))));
  }
  return std::move(page).take();
}

constexpr double kNsPerSecond = 1e9;

std::optional<double> waited(const LoaderJob& job) {
  if (job.longest_wait_ns == 0) return std::nullopt;
  return static_cast<double>(job.longest_wait_ns) / kNsPerSecond;
}

constexpr auto kJobsFormats = text_and_json(render_jobs);

}  // namespace

report::Jobs make_jobs(std::string_view version, const LoaderJobs& jobs) {
  report::Jobs document;
  document.schema_version = report::VersionText(kJobsSchemaVersion);
  document.tool.version = version;
  document.unseen_processes = jobs.unseen;
  std::vector<report::OrphanedWorker> orphans;
  orphans.reserve(jobs.orphans.size());
  for (const OrphanedWorker& orphan : jobs.orphans) {
    orphans.push_back({.pid = orphan.key.pid,
                       .start_ticks = orphan.key.start_ticks,
                       .user = orphan.user,
                       .age_s = static_cast<double>(orphan.age_ns) / kNsPerSecond});
  }
  document.orphaned_workers = report::if_any(std::move(orphans));
  for (const LoaderJob& job : jobs.jobs) {
    document.jobs.push_back({.pid = job.root.pid,
                             .start_ticks = job.root.start_ticks,
                             .user = job.user,
                             .age_s = static_cast<double>(job.age_ns) / kNsPerSecond,
                             .ranks = job.ranks,
                             .workers = job.workers,
                             .is_pool = job.is_pool,
                             .state = job.state,
                             .longest_wait_s = waited(job),
                             .may_look = job.may_look,
                             .shm_bytes = job.shm_bytes,
                             .cmdline = job.command,
                             .job_ids = job.job_ids});
  }
  return document;
}

std::span<const ReportFormat> jobs_formats() {
  return kJobsFormats;
}

}  // namespace dlprobe
