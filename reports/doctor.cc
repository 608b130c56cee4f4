#include "reports/doctor.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <utility>

#include "reports/document/text_layout.h"
#include "reports/document/text_page.h"
#include "reports/model/write_json.h"

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
    return ability.is_required && ability.state == AbilityState::kMissing;
  });
}

std::string headline_of(const std::vector<Ability>& abilities) {
  const auto missing = titles_of(abilities, AbilityState::kMissing);
  const auto limited = titles_of(abilities, AbilityState::kLimited);
  if (lacks_required(abilities)) {
    return fmt::format("dlprobe cannot work here: {}", fmt::join(missing, ", "));
  }
  if (missing.empty() && limited.empty()) return "dlprobe can do everything here";
  std::string text = "dlprobe can do everything here but:";
  if (!missing.empty()) text += fmt::format(" {}", fmt::join(missing, ", "));
  if (!limited.empty()) {
    text += fmt::format("{} in part: {}", missing.empty() ? "" : "; and", fmt::join(limited, ", "));
  }
  return text;
}

std::string_view verdict_text(const std::vector<Ability>& abilities) {
  if (lacks_required(abilities)) return "fail";
  const bool is_whole = std::ranges::all_of(
      abilities, [](const Ability& ability) { return ability.state == AbilityState::kOk; });
  return is_whole ? "pass" : "warn";
}

Json ability_json(const Ability& ability) {
  return {{"name", ability.name},
          {"title", ability.title},
          {"state", to_string(ability.state)},
          {"required", ability.is_required},
          {"text", json_text(ability.text)},
          {"needed_for", ability.needed_for},
          {"remedy", json_text(ability.remedy)}};
}

document::Mark mark_of_state(std::string_view state) {
  if (state == "ok") return document::Mark::kPass;
  return state == "missing" ? document::Mark::kFail : document::Mark::kWarn;
}

void write_ability(TextPage& page, const Json& ability) {
  const std::string state = text_at(ability, "state");
  const bool is_ok = state == "ok";
  page.paragraph(fmt::format("  {:<8} ", state),
                 fmt::format("{}: {}", text_at(ability, "title"), text_at(ability, "text")),
                 mark_of_state(state));
  constexpr const char* kIndent = "           ";
  if (!is_ok || page.options().verbosity > 0) {
    page.paragraph(fmt::format("{}for: ", kIndent), text_at(ability, "needed_for"),
                   document::Mark::kQuiet);
  }
  const std::string remedy = text_at(ability, "remedy");
  if (!is_ok && !remedy.empty()) page.paragraph(fmt::format("{}to do: ", kIndent), remedy);
}

std::string rights_text(const Json& doctor) {
  const Json& rights = object_at(doctor, "rights");
  std::string text = fmt::format("user id {}, capabilities {}", integer_at(rights, "uid"),
                                 text_at(rights, "capabilities"));
  if (const std::string scope = text_at(rights, "ptrace_scope"); !scope.empty())
    text += ", ptrace_scope " + scope;
  if (const std::string seccomp = text_at(rights, "seccomp"); !seccomp.empty())
    text += ", seccomp " + seccomp;
  if (rights.value("own_pid_namespace", false)) text += ", in a pid namespace of its own";
  const std::string container = text_at(object_at(doctor, "host"), "container");
  if (!container.empty()) text += ", container " + container;
  return text;
}

std::string render_doctor(const Json& doctor, const TextOptions& options) {
  TextPage page(options);
  const Json& summary = object_at(doctor, "summary");
  page.paragraph("", text_at(summary, "headline"));
  if (options.verbosity < 0) return std::move(page).take();
  page.blank_line();
  for (const Json& ability : items_at(doctor, "abilities"))
    write_ability(page, ability);
  page.blank_line();
  const Json& host = object_at(doctor, "host");
  page.paragraph("Here: ",
                 fmt::format("{}, Linux {} {}; {}", text_at(host, "os"), text_at(host, "kernel"),
                             text_at(host, "machine"), rights_text(doctor)));
  return std::move(page).take();
}

std::string render_doctor_json(const Json& doctor, const TextOptions& /*options*/) {
  return render_json(doctor);
}

constexpr std::array<ReportFormat, 2> kDoctorFormats = {{
    {"human", "for people at a terminal", render_doctor},
    {"json", "the document that the text is made from", render_doctor_json},
}};

}  // namespace

std::string_view to_string(AbilityState state) {
  if (state == AbilityState::kOk) return "ok";
  return state == AbilityState::kLimited ? "limited" : "missing";
}

Json make_doctor(const DoctorLook& look) {
  Json abilities = Json::array();
  for (const Ability& ability : look.abilities)
    abilities.push_back(ability_json(ability));
  const auto count = [&](AbilityState state) { return titles_of(look.abilities, state).size(); };
  return {{"kind", "dlprobe.doctor"},
          {"schema_version", kDoctorSchemaVersion},
          {"tool", {{"name", "dlprobe"}, {"version", json_text(look.version)}}},
          {"host",
           {{"name", json_text(look.host.name)},
            {"os", json_text(look.host.os)},
            {"kernel", json_text(look.host.kernel)},
            {"machine", json_text(look.host.machine)},
            {"container", json_text(look.host.container)}}},
          {"rights",
           {{"uid", look.rights.uid},
            {"capabilities", look.rights.capabilities},
            {"seccomp", look.rights.seccomp},
            {"ptrace_scope", look.rights.ptrace_scope},
            {"own_pid_namespace", look.rights.own_pid_namespace}}},
          {"summary",
           {{"verdict", verdict_text(look.abilities)},
            {"headline", headline_of(look.abilities)},
            {"counts",
             {{"ok", count(AbilityState::kOk)},
              {"limited", count(AbilityState::kLimited)},
              {"missing", count(AbilityState::kMissing)}}}}},
          {"abilities", std::move(abilities)}};
}

int exit_code_of_doctor(const Json& doctor) {
  return text_at(object_at(doctor, "summary"), "verdict") == "fail" ? 1 : 0;
}

std::span<const ReportFormat> doctor_formats() {
  return kDoctorFormats;
}

}  // namespace dlprobe
