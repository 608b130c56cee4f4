#include "reports/doctor.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <utility>

#include "reports/document/text_layout.h"
#include "reports/document/text_page.h"

namespace dlprobe {
namespace {

std::vector<std::string> titles_of(const std::vector<Ability>& abilities, AbilityState state) {
  std::vector<std::string> titles;
  for (const Ability& ability : abilities) {
    if (ability.state == state) titles.push_back(ability.title);
  }
  return titles;
}

bool lacks_required(const std::vector<Ability>& abilities) {
  return std::ranges::any_of(abilities, [](const Ability& ability) {
    return ability.required && ability.state == AbilityState::kMissing;
  });
}

std::string headline_of(const std::vector<Ability>& abilities) {
  const auto missing = titles_of(abilities, AbilityState::kMissing);
  const auto limited = titles_of(abilities, AbilityState::kLimited);
  if (lacks_required(abilities)) {
    return fmt::format("dlprobe cannot work here: {}", fmt::join(missing, ", "));
  }
  if (missing.empty() && limited.empty()) return "dlprobe can do everything here";
  std::string text = "Limited here:";
  if (!missing.empty()) text += fmt::format(" {}", fmt::join(missing, ", "));
  if (!limited.empty()) {
    text += fmt::format("{} in part: {}", missing.empty() ? "" : "; and", fmt::join(limited, ", "));
  }
  return text;
}

report::DoctorVerdict verdict_on(const std::vector<Ability>& abilities) {
  if (lacks_required(abilities)) return report::DoctorVerdict::kFail;
  const bool is_whole = std::ranges::all_of(
      abilities, [](const Ability& ability) { return ability.state == AbilityState::kOk; });
  return is_whole ? report::DoctorVerdict::kPass : report::DoctorVerdict::kWarn;
}

document::Mark mark_of_state(AbilityState state) {
  if (state == AbilityState::kOk) return document::Mark::kPass;
  return state == AbilityState::kMissing ? document::Mark::kFail : document::Mark::kWarn;
}

void write_ability(TextPage& page, const Ability& ability) {
  const bool is_ok = ability.state == AbilityState::kOk;
  page.paragraph(fmt::format("  {:<8} ", shown(ability.state)),
                 fmt::format("{}: {}", shown(ability.title), shown(ability.text)),
                 mark_of_state(ability.state));
  constexpr const char* kIndent = "           ";
  if (!is_ok || page.options().verbosity > 0) {
    page.paragraph(fmt::format("{}for: ", kIndent), shown(ability.needed_for),
                   document::Mark::kQuiet);
  }
  if (!is_ok && !ability.remedy.empty())
    page.paragraph(fmt::format("{}to do: ", kIndent), shown(ability.remedy));
}

std::string rights_text(const report::Doctor& doctor) {
  const report::Rights& rights = doctor.rights;
  std::string text =
      fmt::format("user id {}, capabilities {}", rights.uid, shown(rights.capabilities));
  if (!rights.ptrace_scope.empty()) text += ", ptrace_scope " + shown(rights.ptrace_scope);
  if (rights.seccomp != report::SeccompMode::kUnknown) text += ", seccomp " + shown(rights.seccomp);
  if (rights.own_pid_namespace) text += ", in a pid namespace of its own";
  if (!doctor.host.container.empty()) text += ", container " + shown(doctor.host.container);
  return text;
}

std::string render_doctor(const AnyDocument& document, const TextOptions& options) {
  const auto& doctor = std::get<report::Doctor>(document);
  TextPage page(options);
  page.paragraph("", shown(doctor.summary.headline));
  if (options.verbosity < 0) return std::move(page).take();
  page.blank_line();
  for (const Ability& ability : doctor.abilities)
    write_ability(page, ability);
  page.blank_line();
  page.paragraph(
      "Here: ", fmt::format("{}, Linux {} {}; {}", shown(doctor.host.os), shown(doctor.host.kernel),
                            shown(doctor.host.machine), rights_text(doctor)));
  return std::move(page).take();
}

constexpr auto kDoctorFormats = text_and_json(render_doctor);

}  // namespace

report::Doctor make_doctor(report::Doctor look) {
  const auto count = [&](AbilityState state) { return titles_of(look.abilities, state).size(); };
  look.schema_version = report::VersionText(kDoctorSchemaVersion);
  look.summary = {.verdict = verdict_on(look.abilities),
                  .headline = headline_of(look.abilities),
                  .counts = {.ok = count(AbilityState::kOk),
                             .limited = count(AbilityState::kLimited),
                             .missing = count(AbilityState::kMissing)}};
  return look;
}

int exit_code_of_doctor(const report::Doctor& doctor) {
  return doctor.summary.verdict == report::DoctorVerdict::kFail ? 1 : 0;
}

std::span<const ReportFormat> doctor_formats() {
  return kDoctorFormats;
}

}  // namespace dlprobe
