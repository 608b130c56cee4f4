#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cstdio>
#include <fstream>

#include "reports/catalog.h"
#include "reports/doctor.h"
#include "reports/model/report.h"
#include "reports/model/stacks.h"
#include "tests/unit/reports/report_json.h"

namespace dlprobe {
namespace {

using ::testing::HasSubstr;

constexpr int kNoJsonschema = 77;

struct Answer {
  int exit_code = -1;
  std::string text;
};

Answer validate(const std::string& report_text) {
  const std::string stem = ::testing::TempDir() + "report_" + std::to_string(getpid());
  const std::string path = stem + ".json";
  const std::string schema_path = stem + ".schema.json";
  std::ofstream(path) << report_text;
  std::ofstream(schema_path) << report_schema();
  const std::string command = std::string(DLPROBE_VALIDATE_COMMAND " ") + schema_path + " " + path;
  Answer answer;
  FILE* pipe = popen(command.c_str(), "r");  // NOLINT(cert-env33-c): the command is fixed at build
  std::array<char, 4096> buffer{};
  while (const size_t size = fread(buffer.data(), 1, buffer.size(), pipe)) {
    answer.text.append(buffer.data(), size);
  }
  answer.exit_code = WEXITSTATUS(pclose(pipe));
  std::remove(path.c_str());
  std::remove(schema_path.c_str());
  return answer;
}

TEST(ReportSchema, EveryReportIsValidAndHasNoUnknownField) {
  for (const testing::ReportCase& each : testing::all_cases()) {
    const Answer answer = validate(text_of_json(make_report(each)));
    if (answer.exit_code == kNoJsonschema)
      GTEST_SKIP() << "needs python3-jsonschema (apt install it)";
    EXPECT_EQ(answer.exit_code, 0) << each.name << ":\n" << answer.text;
  }
}

TEST(ReportSchema, AWrongReportIsRefused) {
  Json report = make_report(testing::healthy_case());
  report["summary"]["verdict"] = "splendid";
  report["runs"][0]["colour"] = "green";
  const Answer answer = validate(text_of_json(report));
  if (answer.exit_code == kNoJsonschema)
    GTEST_SKIP() << "needs python3-jsonschema (apt install it)";
  EXPECT_EQ(answer.exit_code, 1);
  EXPECT_THAT(answer.text, HasSubstr("schema: $.summary.verdict"));
  EXPECT_THAT(answer.text, HasSubstr("strict schema: $.runs[0]"));
}

StacksLook look_of(const dlprobe::Run& run, const RecordingHeader& header) {
  StacksLook look{.version = "0.1.0",
                  .host = header.host,
                  .realtime_ns = header.realtime_ns,
                  .asked_pid = 101,
                  .snapshot = run.snapshots.front(),
                  .processes = run.processes,
                  .gaps = {{.what = "stacks of process 108", .why = "forbidden"}}};
  look.snapshot.channel_ends = {{.inode = 81234, .kind = EndKind::kPipe, .pid = 101, .fd = 4}};
  return look;
}

TEST(StacksSchema, EveryLookIsValidAndHasNoUnknownField) {
  for (const testing::ReportCase& each : testing::all_cases()) {
    if (each.recording.runs.empty() || each.recording.runs.front().snapshots.empty()) continue;
    const StacksLook look = look_of(each.recording.runs.front(), each.recording.header);
    for (const FrameChoice choice : {FrameChoice::kAll, FrameChoice::kPython}) {
      const Answer answer = validate(render_json(make_stacks(look, choice)));
      if (answer.exit_code == kNoJsonschema)
        GTEST_SKIP() << "needs python3-jsonschema (apt install it)";
      EXPECT_EQ(answer.exit_code, 0) << each.name << ":\n" << answer.text;
    }
  }
}

TEST(StacksSchema, AWrongLookIsRefused) {
  const testing::ReportCase hang = testing::hang_case();
  const StacksLook look = look_of(hang.recording.runs.front(), hang.recording.header);
  Json stacks = Json::parse(render_json(make_stacks(look, FrameChoice::kAll)));
  stacks["frames"] = "some";
  stacks["processes"][0]["threads"][0]["colour"] = "green";
  const Answer answer = validate(text_of_json(stacks));
  if (answer.exit_code == kNoJsonschema)
    GTEST_SKIP() << "needs python3-jsonschema (apt install it)";
  EXPECT_EQ(answer.exit_code, 1);
  EXPECT_THAT(answer.text, HasSubstr("schema: $.frames"));
  EXPECT_THAT(answer.text, HasSubstr("strict schema: $.processes[0].threads[0]"));
}

TEST(CatalogSchema, TheListIsValidAndHasNoUnknownField) {
  const std::array<report::CatalogProbe, 1> probes = {
      {{.name = "shm", .summary = "shared memory"}}};
  Json catalog = Json::parse(render_json(make_catalog("0.1.0", probes)));
  EXPECT_EQ(catalog["findings"].size(), all_findings().size());
  const Answer answer = validate(text_of_json(catalog));
  if (answer.exit_code == kNoJsonschema)
    GTEST_SKIP() << "needs python3-jsonschema (apt install it)";
  EXPECT_EQ(answer.exit_code, 0) << answer.text;
  catalog["findings"][0]["severity"] = "dire";
  catalog["probes"][0]["colour"] = "green";
  const Answer wrong = validate(text_of_json(catalog));
  EXPECT_THAT(wrong.text, HasSubstr("schema: $.findings[0].severity"));
  EXPECT_THAT(wrong.text, HasSubstr("strict schema: $.probes[0]"));
}

report::Doctor doctor_look(AbilityState required, AbilityState other) {
  return {.tool = {.version = "0.1.0"},
          .host = {.name = "n1", .os = "Debian", .kernel = "6.1", .machine = "x86_64"},
          .rights = {.uid = 1000,
                     .capabilities = "0",
                     .seccomp = report::SeccompMode::kFilter,
                     .ptrace_scope = "1"},
          .abilities = {{.name = "proc",
                         .title = "files of /proc",
                         .state = required,
                         .required = true,
                         .text = "read",
                         .needed_for = "everything",
                         .remedy = ""},
                        {.name = "signals",
                         .title = "who sent a signal",
                         .state = other,
                         .text = "forbidden: \x1b[2J",
                         .needed_for = "DLP0503",
                         .remedy = "run dlprobe as root"}}};
}

TEST(DoctorSchema, EveryVerdictIsValidAndHasItsExitCode) {
  struct Case {
    AbilityState required;
    AbilityState other;
    const char* headline;
    int exit_code;
  };
  constexpr std::array<Case, 4> kCases = {{
      {AbilityState::kOk, AbilityState::kOk, "dlprobe can do everything here", 0},
      {AbilityState::kOk, AbilityState::kMissing, "Limited here: who sent a signal", 0},
      {AbilityState::kLimited, AbilityState::kMissing,
       "Limited here: who sent a signal; and in part: files of /proc", 0},
      {AbilityState::kMissing, AbilityState::kOk, "dlprobe cannot work here: files of /proc", 1},
  }};
  for (const Case& each : kCases) {
    const report::Doctor doctor = make_doctor(doctor_look(each.required, each.other));
    EXPECT_EQ(doctor.summary.headline, each.headline);
    EXPECT_EQ(exit_code_of_doctor(doctor), each.exit_code);
    const std::string text = doctor_formats().front().render(doctor, {});
    EXPECT_TRUE(text.starts_with(each.headline)) << text;
    EXPECT_EQ(text.find('\x1b'), std::string::npos) << text;
    EXPECT_EQ(text.contains("run dlprobe as root"), each.other != AbilityState::kOk) << text;
    const Answer answer = validate(render_json(doctor));
    if (answer.exit_code == kNoJsonschema)
      GTEST_SKIP() << "needs python3-jsonschema (apt install it)";
    EXPECT_EQ(answer.exit_code, 0) << answer.text;
  }
}

TEST(ReportSchema, ItDescribesEachDocumentAndLeadsNowhereElse) {
  const Json schema = Json::parse(report_schema());
  for (const char* document : {"cluster", "stacks", "list", "doctor"})
    EXPECT_TRUE(schema["$defs"].contains(document)) << document;
  const std::string text(report_schema());
  constexpr std::string_view kReference = R"("$ref": "#/$defs/)";
  for (size_t at = text.find(kReference); at != std::string::npos;
       at = text.find(kReference, at + 1)) {
    const size_t begin = at + kReference.size();
    const std::string name = text.substr(begin, text.find('"', begin) - begin);
    EXPECT_TRUE(schema["$defs"].contains(name)) << name;
  }
}

}  // namespace
}  // namespace dlprobe
