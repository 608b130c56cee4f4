// Real incidents, as dlprobe recorded them: see tests/fixtures/recordings/README.md.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <iterator>
#include <optional>
#include <ostream>
#include <string>

#include "lib/model/recording_codec.h"
#include "tests/unit/probes/scene.h"

namespace dlprobe {
namespace {

struct Incident {
  std::string name;
  std::optional<FindingCode> first;  ///< none: nothing of severity error may be said
};

std::ostream& operator<<(std::ostream& stream, const Incident& incident) {
  return stream << incident.name;
}

class RecordedIncident : public testing::TestWithParam<Incident> {
 protected:
  static Expected<Recording> read(const std::string& name) {
    std::ifstream file(std::string(DLPROBE_RECORDINGS_DIR) + "/" + name + ".dlrec",
                       std::ios::binary);
    const std::string bytes{std::istreambuf_iterator<char>(file), {}};
    return decode_recording(bytes);
  }
};

TEST_P(RecordedIncident, IsDiagnosedAgain) {
  const Expected<Recording> recording = read(GetParam().name);
  ASSERT_TRUE(recording) << to_string(recording.error());
  const Verdict verdict = find_probe("shm")->examine(*recording);
  EXPECT_THAT(verdict.gaps, testing::IsEmpty());
  if (!GetParam().first) {
    EXPECT_FALSE(has_error(verdict));
    return;
  }
  ASSERT_FALSE(verdict.findings.empty());
  EXPECT_EQ(verdict.findings.front().code, *GetParam().first)
      << info(verdict.findings.front().code).code << " " << verdict.findings.front().message;
  EXPECT_EQ(verdict.findings.front().severity, Severity::kError);
  EXPECT_EQ(verdict.findings.front().confidence, Confidence::kCertain);
}

INSTANTIATE_TEST_SUITE_P(
    Shm, RecordedIncident,
    testing::Values(Incident{.name = "bus-error", .first = FindingCode::kShmExhausted},
                    Incident{.name = "refused-segment", .first = FindingCode::kShmExhausted},
                    Incident{.name = "lost-batch", .first = FindingCode::kBatchLostInWorker},
                    Incident{.name = "killed-workers", .first = FindingCode::kShmLeak},
                    Incident{.name = "held-by-another-job",
                             .first = FindingCode::kShmHeldByAnotherJob},
                    Incident{.name = "bus-error-of-a-data-file", .first = std::nullopt},
                    Incident{.name = "healthy", .first = std::nullopt}));

}  // namespace
}  // namespace dlprobe
