#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cstdio>
#include <fstream>

#include "reports/report.h"
#include "tests/unit/reports/cases.h"

namespace dlprobe {
namespace {

constexpr int kNoJsonschema = 77;

struct Answer {
  int exit_code = -1;
  std::string text;
};

Answer validate(const std::string& report_text) {
  const std::string path = ::testing::TempDir() + "report_" + std::to_string(getpid()) + ".json";
  std::ofstream(path) << report_text;
  const std::string command =
      std::string(DLPROBE_VALIDATE_COMMAND " " DLPROBE_SCHEMA_FILE " ") + path;
  Answer answer;
  FILE* pipe = popen(command.c_str(), "r");  // NOLINT(cert-env33-c): the command is fixed at build
  std::array<char, 4096> buffer{};
  while (const size_t size = fread(buffer.data(), 1, buffer.size(), pipe)) {
    answer.text.append(buffer.data(), size);
  }
  answer.exit_code = WEXITSTATUS(pclose(pipe));
  std::remove(path.c_str());
  return answer;
}

TEST(ReportSchema, EveryReportIsValidAndHasNoUnknownField) {
  for (const testing::ReportCase& each : testing::all_cases()) {
    const Answer answer = validate(render_json(make_report(each.recording, each.verdict, {})));
    if (answer.exit_code == kNoJsonschema)
      GTEST_SKIP() << "needs python3-jsonschema (apt install it)";
    EXPECT_EQ(answer.exit_code, 0) << each.name << ":\n" << answer.text;
  }
}

TEST(ReportSchema, AWrongReportIsRefused) {
  const testing::ReportCase healthy = testing::healthy_case();
  Json report = make_report(healthy.recording, healthy.verdict, {});
  report["summary"]["verdict"] = "splendid";
  report["runs"][0]["colour"] = "green";
  const Answer answer = validate(render_json(report));
  if (answer.exit_code == kNoJsonschema)
    GTEST_SKIP() << "needs python3-jsonschema (apt install it)";
  EXPECT_EQ(answer.exit_code, 1);
  EXPECT_NE(answer.text.find("schema: $.summary.verdict"), std::string::npos) << answer.text;
  EXPECT_NE(answer.text.find("strict schema: $.runs[0]"), std::string::npos) << answer.text;
}

TEST(ReportSchema, TheEmbeddedSchemaIsTheFile) {
  std::ifstream file(DLPROBE_SCHEMA_FILE);
  const std::string text((std::istreambuf_iterator<char>(file)), std::istreambuf_iterator<char>());
  EXPECT_EQ(report_schema(), text);
}

}  // namespace
}  // namespace dlprobe
