// What the workers of one loader do alike, as the witness in each told of it.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <utility>
#include <vector>

#include "probes/probe.h"
#include "tests/unit/probes/scene.h"

namespace dlprobe {
namespace {

using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::SizeIs;

using Digests = std::vector<std::string>;

class DataTest : public ::testing::Test {
 protected:
  void draws(int32_t pid, const std::string& digest, const std::string& path = "dataset.rng",
             uint64_t loader = 77) {
    tell({.kind = StartEventKind::kDraws,
          .process = key_of(pid),
          .path = path,
          .type = "numpy.random.RandomState",
          .file = "/data/job/train.py",
          .line = 12,
          .function = "Images.__getitem__",
          .loader = loader,
          .digests = {digest}});
  }

  void reads(int32_t pid, Digests digests, uint64_t loader = 77) {
    tell({.kind = StartEventKind::kSamples,
          .process = key_of(pid),
          .file = "/data/job/train.py",
          .line = 20,
          .function = "Lines.__iter__",
          .loader = loader,
          .digests = std::move(digests)});
  }

  std::vector<Finding> found() const {
    return probes::data::kProbe.examine(scene_.recording).findings;
  }

 private:
  void tell(StartEvent event) {
    event.at = Scene::at(++told_);
    scene_.run().start_events.push_back(std::move(event));
  }

  Scene scene_;
  double told_ = 0;
};

TEST_F(DataTest, WorkersThatDrawFromCopiesOfOneGeneratorAreNamed) {
  draws(101, "aa");
  draws(102, "aa");
  ASSERT_THAT(found(), SizeIs(1));
  const Finding finding = found().front();
  EXPECT_EQ(finding.code, FindingCode::kRandomNumbersRepeated);
  EXPECT_EQ(finding.severity, Severity::kWarning);
  EXPECT_EQ(finding.confidence, Confidence::kLikely);
  EXPECT_EQ(finding.processes, std::vector({key_of(101), key_of(102)}));
  EXPECT_EQ(finding.message.plain(),
            "worker 101 and worker 102 draw the same random numbers: each has a copy of "
            "dataset.rng (numpy.random.RandomState); at train.py:12 in Images.__getitem__");
  EXPECT_THAT(finding.remedies.front().commands.at(2).plain(),
              HasSubstr("info.dataset.rng.seed(info.seed % 2**32)"));
}

TEST_F(DataTest, AGeneratorOfTheLibraryIsSeededByItsModule) {
  draws(101, "aa", "numpy.random");
  draws(102, "aa", "numpy.random");
  ASSERT_THAT(found(), SizeIs(1));
  EXPECT_THAT(found().front().message.plain(), HasSubstr("the generator of numpy.random began"));
  EXPECT_THAT(found().front().remedies.front().commands.at(2).plain(),
              HasSubstr("    numpy.random.seed(info.seed % 2**32)"));
}

TEST_F(DataTest, GeneratorsThatBeganInStatesOfTheirOwnAreNot) {
  draws(101, "aa");
  draws(102, "bb");
  draws(102, "aa", "dataset.other");
  draws(103, "aa", "dataset.rng", 78);
  EXPECT_THAT(found(), IsEmpty());
}

TEST_F(DataTest, EachEpochAndEachGeneratorOfADataSetIsOneFinding) {
  for (const int32_t pid : {101, 102, 201, 202}) {
    draws(pid, "aa", "dataset.rng", pid < 200 ? 77 : 78);
    draws(pid, "cc", "dataset.noise", pid < 200 ? 77 : 78);
  }
  ASSERT_THAT(found(), SizeIs(1));
  EXPECT_EQ(found().front().processes, std::vector({key_of(101), key_of(102)}));
}

TEST_F(DataTest, WorkersThatReadTheSameSamplesAreNamed) {
  for (const int32_t pid : {101, 102, 103}) {
    reads(pid, {"a", "b", "c", "d"});
    reads(pid, {"a", "b", "c", "d", "a", "f"});
  }
  ASSERT_THAT(found(), SizeIs(1));
  const Finding finding = found().front();
  EXPECT_EQ(finding.code, FindingCode::kSamplesRepeated);
  EXPECT_EQ(finding.severity, Severity::kWarning);
  EXPECT_EQ(finding.message.plain(),
            "worker 101 and worker 102 and 1 more deliver the same samples: the first 6 of each "
            "are equal; at train.py:20 in Lines.__iter__");
}

TEST_F(DataTest, SamplesOfWhichEachWorkerHasItsOwnAreNot) {
  // A header that each file begins with.
  reads(101, {"a", "b", "c", "d"});
  reads(102, {"a", "b", "c", "d"});
  reads(101, {"a", "b", "c", "d", "e"});
  reads(102, {"a", "b", "c", "d", "f"});
  // Samples that are always the same.
  reads(201, {"a", "a", "a", "b", "c", "c"}, 78);
  reads(202, {"a", "a", "a", "b", "c", "c"}, 78);
  // Two loaders over one data set.
  reads(301, {"a", "b", "c", "d"}, 79);
  reads(302, {"a", "b", "c", "d"}, 80);
  EXPECT_THAT(found(), IsEmpty());
}

TEST_F(DataTest, AVariableOfAClosureIsNotToBeSeededByItsName) {
  draws(101, "aa", "make_dropout.<locals>.r");
  draws(102, "aa", "make_dropout.<locals>.r");
  ASSERT_THAT(found(), SizeIs(1));
  EXPECT_THAT(found().front().message.plain(), HasSubstr("a copy of make_dropout.<locals>.r"));
  EXPECT_THAT(found().front().remedies.front().title.plain(), HasSubstr("Let that function draw"));
}

}  // namespace
}  // namespace dlprobe
