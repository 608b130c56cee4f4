// What the workers of one loader do alike, as the witness in each told of it.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "probes/probe.h"
#include "tests/unit/probes/told_test.h"

namespace dlprobe {
namespace {

using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::SizeIs;

using Digests = std::vector<std::string>;

class DataTest : public ToldTest {
 protected:
  void draws(int32_t pid, const std::string& digest, const std::string& path = "dataset.rng",
             uint64_t loader = 77, const std::string& seeded_by = "") {
    const int64_t worker = pid % 100;
    tell({.kind = StartEventKind::kDraws,
          .process = key_of(pid),
          .wanted = seeded_by,
          .path = path,
          .type = "numpy.random.RandomState",
          .file = "/data/job/train.py",
          .line = 12,
          .function = "Images.__getitem__",
          .count = worker,
          .loader = loader,
          .digests = {digest}});
  }

  // A process of multiprocessing, which the trainer started.
  void process_draws(ProcessKey process, const std::string& path) {
    tell({.kind = StartEventKind::kStarted,
          .process = key_of(100),
          .child_pid = process.pid,
          .file = "/data/job/train.py",
          .line = 40,
          .function = "main"});
    tell({.kind = StartEventKind::kDraws,
          .process = process,
          .path = path,
          .type = "numpy.random.RandomState",
          .loader = 77,
          .digests = {"aa"}});
  }

  // All that it has, in no order; `count`: with those that came more than once.
  void reads(int32_t pid, std::pair<int, int> numbers, uint64_t loader = 77, int64_t count = 0) {
    Digests digests;
    for (int number = numbers.first; number < numbers.second; ++number)
      digests.push_back(std::to_string(1000 + number));  // of one width
    const size_t different = digests.size();
    digests.resize(std::min<size_t>(different, 200));  // as many as are told
    tell({.kind = StartEventKind::kSamples,
          .process = key_of(pid),
          .wanted = has_end_ ? "end" : "",
          .message = drawn_by_,
          .type = drawn_by_.empty() ? "" : "random.Random",
          .file = "/data/job/train.py",
          .line = 20,
          .function = "Lines.__iter__",
          .count = count == 0 ? static_cast<int64_t>(different) : count,
          .chain = order_,
          .loader = loader,
          .digests = std::move(digests),
          .different = different});
  }

  void leaves_out(int32_t pid, uint64_t missing, int64_t count) {
    tell({.kind = StartEventKind::kSamples,
          .process = key_of(pid),
          .count = count,
          .loader = 77,
          .different = static_cast<uint64_t>(count) - missing});
  }

  void learns(int32_t rank, int32_t pid, int32_t teller, Digests digests, int64_t order = 0) {
    tell({.kind = StartEventKind::kJoinedGroup,
          .process = key_of(pid),
          .count = rank,
          .workers = 2});
    tell({.kind = StartEventKind::kStarted, .process = key_of(pid), .child_pid = teller});
    tell({.kind = StartEventKind::kRankSamples,
          .process = key_of(teller),
          .method = method_,
          .file = "/data/job/train.py",
          .line = 7,
          .function = "Images.__getitem__",
          .count = order,
          .loader = 77,
          .digests = std::move(digests)});
  }

  // Batches as "0 SHAPES CHECKSUM CHECKSUM".
  void sends(int32_t pid, Digests batches, uint64_t loader = 77) {
    tell({.kind = StartEventKind::kBatchesSent,
          .process = key_of(pid),
          .file = "/data/job/train.py",
          .line = 9,
          .function = "Images.__getitem__",
          .loader = loader,
          .digests = std::move(batches)});
  }

  void takes(Digests batches, uint64_t loader = 77) {
    tell({.kind = StartEventKind::kBatchesTaken,
          .process = key_of(100),
          .loader = loader,
          .digests = std::move(batches)});
  }

  // A loop of the trainer over its loader.
  void loops(const std::string& order, const std::string& model, const std::string& data = "1-8-0",
             uint64_t loader = 77, int32_t pid = 100) {
    tell({.kind = StartEventKind::kEpoch,
          .process = key_of(pid),
          .path = order == "-" ? "" : "generator",
          .type = order == "-" ? "" : "RandomSampler",
          .file = "/data/job/train.py",
          .line = 30,
          .function = "main",
          .count = 7,
          .workers = ranks_,
          .loader = loader,
          .digests = {order, data, model},
          .different = learned_by_});
  }

  void finds_no_more(const std::string& sampler) {
    tell({.kind = StartEventKind::kEpoch,
          .process = key_of(100),
          .path = sampler,
          .type = "by_length",
          .file = "/data/job/train.py",
          .line = 30,
          .function = "main"});
  }

  // Loops of the trainer that it left: how many by then, how long they waited in all.
  void leaves(BootNs at, int64_t loops, double waited, uint64_t batches) {
    tell({.at = at,
          .kind = StartEventKind::kEpoch,
          .process = key_of(100),
          .wanted = "left",
          .file = "/data/job/train.py",
          .line = 31,
          .function = "real_batch",
          .count = loops,
          .seconds = waited,
          .different = batches});
  }

  void changes(const std::string& path, const std::string& before, uint64_t loader = 77) {
    tell({.kind = StartEventKind::kSettingChanged,
          .process = key_of(100),
          .wanted = "1",
          .message = "0",
          .path = path,
          .file = "/data/job/train.py",
          .line = 12,
          .function = "Images.__getitem__",
          .loader = loader,
          .digests = {before}});
  }

  void keeps(int32_t pid, Digests settings, uint64_t loader = 77) {
    tell({.kind = StartEventKind::kSettingsKept,
          .process = key_of(pid),
          .count = pid % 100,
          .loader = loader,
          .digests = std::move(settings)});
  }

  // Tensors of one part of memory as "TIME CHECKSUM", and "TIME KEPT" where they came.
  void sends_tensors(int32_t pid, Digests tensors) {
    tell({.kind = StartEventKind::kTensorsSent,
          .process = key_of(pid),
          .file = "/data/job/train.py",
          .line = 9,
          .function = "read",
          .loader = 77,
          .digests = std::move(tensors)});
  }

  void takes_tensors(int32_t pid, Digests tensors, int32_t child) {
    tell({.kind = StartEventKind::kStarted, .process = key_of(pid), .child_pid = child});
    tell({.kind = StartEventKind::kTensorsTaken,
          .process = key_of(pid),
          .loader = 77,
          .digests = std::move(tensors)});
  }

  uint64_t learned_by_ = 1;  // the batch by which models learn first
  bool has_end_ = true;      // the data of the workers
  Digests order_;            // of their samples
  std::string drawn_by_;     // a generator's first numbers
  std::string method_;       // by which the workers of ranks began, if not forked
  std::optional<int32_t> ranks_;
};

TEST_F(DataTest, WorkersThatDrawFromCopiesOfOneGeneratorAreNamed) {
  draws(101, "aa");
  draws(102, "aa");
  const Finding finding = only();
  EXPECT_THAT(finding,
              Is(FindingCode::kRandomNumbersRepeated, Severity::kWarning, Confidence::kLikely));
  EXPECT_EQ(finding.processes, std::vector({key_of(101), key_of(102)}));
  EXPECT_EQ(finding.message.plain(),
            "worker 101 and worker 102 draw the same random numbers: each has a copy of "
            "dataset.rng (numpy.random.RandomState); at train.py:12 in Images.__getitem__");
  EXPECT_THAT(finding.remedies.front().commands.at(2).plain(),
              HasSubstr("info.dataset.rng.seed(info.seed % 2**32)"));
}

TEST_F(DataTest, AllGeneratorsThatAreEqualAreSeeded) {
  for (const int32_t pid : {101, 102}) {
    draws(pid, "aa", "dataset.flip.rng");
    draws(pid, "bb", "dataset.crop.rng");
  }
  const auto lines = [&] { return only().remedies.front().commands; };
  EXPECT_THAT(only(), Says("and so of 1 other generator"));
  ASSERT_THAT(lines(), SizeIs(5));
  EXPECT_THAT(lines().at(2).plain(), HasSubstr("info.dataset.flip.rng.seed("));
  EXPECT_THAT(lines().at(3).plain(), HasSubstr("info.dataset.crop.rng.seed("));
}

TEST_F(DataTest, AMethodThatSeedsAllGeneratorsIsNamed) {
  for (const int32_t pid : {101, 102}) {
    draws(pid, "aa", "dataset.flip.rng", 77, "dataset.set_random_seed");
    draws(pid, "bb", "dataset.crop.rng", 77, "dataset.set_random_seed");
  }
  const auto lines = only().remedies.front().commands;
  ASSERT_THAT(lines, SizeIs(4));
  EXPECT_THAT(lines.at(2).plain(), HasSubstr("info.dataset.set_random_seed(info.seed"));
}

TEST_F(DataTest, AGeneratorOfTheLibraryIsSeededByItsModule) {
  draws(101, "aa", "numpy.random");
  draws(102, "aa", "numpy.random");
  EXPECT_THAT(only(), Says("the generator of numpy.random began"));
  EXPECT_THAT(only().remedies.front().commands.at(2).plain(),
              HasSubstr("    numpy.random.seed(info.seed % 2**32)"));
}

TEST_F(DataTest, GeneratorsThatBeganInStatesOfTheirOwnAreNot) {
  draws(101, "aa");
  draws(102, "bb");
  draws(102, "aa", "dataset.other");
  draws(103, "aa", "dataset.rng", 78);
  EXPECT_THAT(found(), IsEmpty());
}

TEST_F(DataTest, ProcessesThatDrawFromCopiesOfOneGeneratorAreNamed) {
  process_draws({.pid = 501, .start_ticks = 10}, "RNG");
  process_draws({.pid = 502, .start_ticks = 11}, "RNG");
  EXPECT_EQ(only().message.plain(),
            "process 501 and process 502 draw the same random numbers: each has a copy of RNG "
            "(numpy.random.RandomState); started at train.py:40 in main");
  EXPECT_EQ(only().remedies.front().commands.at(1).plain(), "    RNG.seed()");
}

TEST_F(DataTest, AGeneratorThatAProcessWasGivenIsToBeMadeInIt) {
  process_draws({.pid = 501, .start_ticks = 10}, "args[0].rng");
  process_draws({.pid = 502, .start_ticks = 11}, "args[0].rng");
  EXPECT_THAT(only().remedies.front().commands.front().plain(),
              HasSubstr("rng = numpy.random.default_rng([seed, number])"));
}

TEST_F(DataTest, ProcessesThatFollowEachOtherMayDrawAlike) {
  process_draws({.pid = 501, .start_ticks = 10}, "RNG");
  process_draws({.pid = 502, .start_ticks = 1'000'000'000}, "RNG");  // later than told of 501
  EXPECT_THAT(found(), IsEmpty());
}

TEST_F(DataTest, EachEpochAndEachGeneratorOfADataSetIsOneFinding) {
  for (const int32_t pid : {101, 102, 201, 202}) {
    draws(pid, "aa", "dataset.rng", pid < 200 ? 77 : 78);
    draws(pid, "cc", "dataset.noise", pid < 200 ? 77 : 78);
  }
  EXPECT_EQ(only().processes, std::vector({key_of(101), key_of(102)}));
}

TEST_F(DataTest, WorkersThatReadTheSameSamplesAreNamed) {
  for (const int32_t pid : {101, 102, 103}) {
    reads(pid, {0, 4});
    reads(pid, {0, 6});
  }
  const Finding finding = only();
  EXPECT_THAT(finding, Is(FindingCode::kSamplesRepeated, Severity::kWarning));
  EXPECT_EQ(finding.message.plain(),
            "worker 101 and worker 102 and 1 more deliver the same samples: 6 of 6 compared are "
            "equal; at train.py:20 in Lines.__iter__");
  EXPECT_THAT(finding, AdvisesFirst("Give each worker its part"));
}

TEST_F(DataTest, PartsThatOverlapAreNamed) {
  reads(101, {0, 112});
  reads(102, {100, 212});
  reads(103, {212, 300});
  EXPECT_EQ(only().processes, std::vector({key_of(101), key_of(102)}));
  EXPECT_THAT(only(), Says("12 of 112 compared are equal", "harmless if they are to share some"));
  EXPECT_THAT(only(), AdvisesFirst("do not overlap"));
}

// The lowest 200 of the one end at 199, and the other has some of these.
TEST_F(DataTest, OfManySamplesTheLowestAreCompared) {
  reads(101, {0, 400});
  reads(102, {100, 500});
  EXPECT_THAT(only(), Says("100 of 100 compared are equal"));
}

TEST_F(DataTest, SamplesOfWhichEachWorkerHasItsOwnAreNot) {
  // A header that each file begins with.
  reads(101, {0, 4});
  reads(102, {0, 4});
  reads(101, {0, 20});
  reads(102, {16, 40});
  // Samples that are always the same, and a file that each worker reads several times on purpose.
  reads(201, {0, 3}, 78, 40);
  reads(202, {0, 3}, 78, 40);
  reads(203, {30, 60}, 78, 60);
  reads(204, {30, 60}, 78, 60);
  // Two loaders over one data set.
  reads(301, {0, 30}, 79);
  reads(302, {0, 30}, 80);
  EXPECT_THAT(found(), IsEmpty());
}

TEST_F(DataTest, ADataSetOfWhichMostSamplesAreNoneIsNamed) {
  leaves_out(101, 8, 10);
  leaves_out(102, 10, 10);
  EXPECT_THAT(found(), IsEmpty()) << "too few";
  leaves_out(101, 64, 64);
  EXPECT_THAT(found(), IsEmpty()) << "they are to give nothing";
  leaves_out(101, 60, 64);
  EXPECT_THAT(only(), Is(FindingCode::kDataNotReadable, Severity::kWarning));
  EXPECT_THAT(only(), Says("70 of the first 74 samples of worker 101 and worker 102 are None"));
}

TEST_F(DataTest, WorkersThatDrawFromAllDataWithoutEndAreNot) {
  has_end_ = false;
  order_ = {"aa", "bb"};
  reads(101, {0, 100});
  order_ = {"aa", "cc", "dd"};
  reads(102, {0, 100});
  EXPECT_THAT(found(), IsEmpty());
  order_ = {"aa", "cc"};
  reads(104, {0, 90});
  ASSERT_THAT(found(), SizeIs(1)) << "in the same order";
  EXPECT_EQ(found().front().processes, std::vector({key_of(102), key_of(104)}));
}

TEST_F(DataTest, ShardsThatAreDrawnWithReplacementComeInOthersByChance) {
  order_ = {"aa"};
  reads(101, {0, 80}, 77, 100);
  reads(201, {0, 100}, 78);
  order_ = {"bb"};
  reads(102, {20, 120}, 77);
  reads(202, {20, 120}, 78);
  EXPECT_THAT(found(), IsEmpty()) << "one epoch of one worker shows how they are drawn";
  order_ = {"aa"};
  reads(103, {20, 120}, 77);
  EXPECT_THAT(found(), SizeIs(1)) << "in the same order";
}

TEST_F(DataTest, RanksWhoseWorkersWereSpawnedAreKnownByTheirTrainers) {
  method_ = "spawn";
  learns(0, 100, 201, {"a", "b", "c", "d"});
  learns(1, 101, 202, {"a", "b", "c", "d"});
  loops("-", "1");
  loops("-", "1", "1-8-0", 77, 101);
  EXPECT_THAT(found(), IsEmpty()) << "they hold parts of one model, maybe";
}

TEST_F(DataTest, RanksWhoseWorkersWereSpawnedAreNamed) {
  method_ = "spawn";
  ranks_ = 2;
  learns(0, 100, 201, {"a", "b", "c", "d"});
  learns(1, 101, 202, {"a", "b", "c", "d"});
  EXPECT_THAT(found(), IsEmpty()) << "no model was seen to learn";
  loops("-", "1");
  loops("-", "1", "1-8-0", 77, 101);
  EXPECT_EQ(only().processes, std::vector({key_of(100), key_of(101)}));
}

TEST_F(DataTest, RanksThatLearnFromTheSameSamplesAreNamed) {
  learns(0, 100, 101, {"a", "b", "c", "d", "a"});
  EXPECT_THAT(found(), IsEmpty());
  learns(1, 200, 201, {"a", "b", "c", "d", "a"});
  EXPECT_EQ(only().severity, Severity::kWarning);
  EXPECT_EQ(only().processes, std::vector({key_of(100), key_of(200)}));
  EXPECT_THAT(only(), Says("learn from the same samples: the first 5 of each are equal"));
}

TEST_F(DataTest, RanksThatLearnFromTheirPartsAreNot) {
  learns(0, 100, 101, {"a", "b", "c", "d"});
  learns(1, 200, 201, {"a", "b", "c", "e"});
  EXPECT_THAT(found(), IsEmpty());
}

TEST_F(DataTest, RanksThatLearnInTheOrderOfTheDataAreNamedWhereTheirModelsAreWrittenTo) {
  Digests samples;
  for (int number = 0; number < 16; ++number)
    samples.push_back(std::to_string(number));
  for (const int64_t order : {1, 2}) {
    learns(0, 100, 201, samples, order);
    learns(1, 101, 202, samples, order);
  }
  EXPECT_THAT(found(), IsEmpty());
  loops("-", "-");
  loops("-", "1?");
  EXPECT_THAT(found(), IsEmpty());
  loops("-", "1");
  loops("-", "1", "1-8-0", 77, 101);
  EXPECT_THAT(only(),
              Says("learn from the same samples: the first 16 of each are equal, in the same"));
  EXPECT_THAT(only(), AdvisesFirst("worker of each rank"));
}

TEST_F(DataTest, RanksThatSkipTheBatchesOfOthersAreNot) {
  Digests samples;
  for (int number = 0; number < 16; ++number)
    samples.push_back(std::to_string(number));
  for (const int32_t rank : {0, 1}) {
    learns(rank, 100 + rank, 201 + rank, samples, 2);
    learned_by_ = static_cast<uint64_t>(rank) + 1;
    loops("-", "1", "1-8-0", 77, 100 + rank);
  }
  EXPECT_THAT(found(), IsEmpty());
}

TEST_F(DataTest, FewSamplesInTheOrderOfTheDataMayBeTheSame) {
  learns(0, 100, 201, {"a", "b", "c", "d"}, 1);
  learns(1, 101, 202, {"a", "b", "c", "d"}, 1);
  loops("-", "1");
  loops("-", "1", "1-8-0", 77, 101);
  EXPECT_THAT(found(), IsEmpty());
}

TEST_F(DataTest, BatchesThatComeWithOtherValuesAreNamed) {
  sends(101, {"0 aa 10 77", "2 aa 12 77"});
  takes({"0 aa 12 77", "1 aa 13 77"});
  sends(102, {"1 aa 11 77"});
  sends(101, {"4 aa 14 77"});
  takes({"2 aa 14 77", "3 aa 13 77", "4 aa 14 77"});
  const Finding finding = only();
  EXPECT_THAT(finding, Is(FindingCode::kBatchOverwritten, Severity::kError, Confidence::kCertain));
  EXPECT_EQ(finding.processes, std::vector({key_of(101), key_of(102)}));
  EXPECT_EQ(finding.message.plain(),
            "worker 101 and worker 102 overwrote batches after sending them: the trainer got 3 of "
            "4 compared with other values; at train.py:9 in Images.__getitem__");
}

TEST_F(DataTest, OverwrittenBatchesOfEachEpochAreOneFinding) {
  for (const uint64_t loader : {77, 78}) {
    sends(loader == 77 ? 101 : 201, {"0 aa 10"}, loader);
    takes({"0 aa 12"}, loader);
  }
  EXPECT_EQ(only().processes, std::vector({key_of(101)}));
}

TEST_F(DataTest, BatchesThatComeAsTheyWereSentAreNot) {
  sends(101, {"0 aa 10 -", "2 aa 12 55", "4 aa 14", "6 bb 16", "8 aa 18", "10"});
  // Nothing is said of the second array; of no batch; of one that is built in another way.
  takes({"0 aa 10 99", "2 aa 12 -", "6 cc 99", "8 aa 18 99", "10"});
  // Batches of another loader.
  takes({"0 aa 99 99"}, 78);
  EXPECT_THAT(found(), IsEmpty());
}

TEST_F(DataTest, AVariableOfAClosureIsNotToBeSeededByItsName) {
  draws(101, "aa", "make_dropout.<locals>.r");
  draws(102, "aa", "make_dropout.<locals>.r");
  EXPECT_THAT(only(), Says("a copy of make_dropout.<locals>.r"));
  EXPECT_THAT(only(), AdvisesFirst("Let that function draw"));
}

TEST_F(DataTest, EpochsInOneShuffledOrderAreNamed) {
  loops("aa", "3");
  EXPECT_THAT(found(), IsEmpty());
  loops("aa", "3");
  const Finding finding = only();
  EXPECT_THAT(finding, Is(FindingCode::kEpochsRepeated, Severity::kWarning, Confidence::kLikely));
  EXPECT_EQ(finding.processes, std::vector({key_of(100)}));
  EXPECT_THAT(finding,
              Says(" got the samples of 2 epochs in the same shuffled order: the generator of "
                   "its RandomSampler began each in the same state (seed 7); DataLoader at "
                   "train.py:30 in main"));
}

TEST_F(DataTest, WhereNoModelLearnsThreeEpochsOfTheOnlyLoaderAreNeeded) {
  loops("aa", "-");
  loops("aa", "-");
  EXPECT_THAT(found(), IsEmpty());
  loops("aa", "-");
  EXPECT_THAT(found(), SizeIs(1));
  loops("bb", "-", "2-8-0");
  EXPECT_THAT(found(), IsEmpty());
}

// By a fused optimizer, or in an attack on the model.
TEST_F(DataTest, WhereNoModelIsWrittenToBackwardCounts) {
  loops("aa", "3?");
  loops("aa", "3?");
  loops("bb", "-", "2-8-0");
  EXPECT_THAT(found(), SizeIs(1));
  loops("cc", "3", "2-8-0");
  EXPECT_THAT(found(), IsEmpty());
}

TEST_F(DataTest, EpochsThatAreToBeAlikeOrDifferAreNot) {
  // One of them is another one.
  loops("aa", "3");
  loops("aa", "3");
  loops("bb", "3");
  // A pass for the mean; runs that each have a model of their own; evaluation.
  loops("cc", "-", "2-8-0");
  loops("cc", "4", "2-8-0");
  loops("cc", "5", "2-8-0");
  for (int epoch = 0; epoch < 4; ++epoch)
    loops("dd", "-", "3-8-0");
  // Other data; no order that is known.
  loops("ee", "3", "4-8-0");
  loops("ee", "3", "5-8-0");
  loops("-", "3", "6-8-2");
  loops("-", "3", "6-8-2");
  EXPECT_THAT(found(), IsEmpty());
}

TEST_F(DataTest, WorkersThatDrawTheSameInEachEpochAreNamed) {
  for (const uint64_t loader : {77, 78}) {
    draws(loader == 77 ? 101 : 201, "aa", "numpy.random", loader);
    draws(loader == 77 ? 102 : 202, "bb", "numpy.random", loader);
    loops("-", "3", "1-8-2", loader);
  }
  const Finding finding = only();
  EXPECT_EQ(finding.code, FindingCode::kEpochsRepeated);
  EXPECT_EQ(finding.processes, std::vector({key_of(101), key_of(102)}));
  EXPECT_EQ(finding.message.plain(),
            "workers drew the same random numbers in each of 2 epochs: the generator of "
            "numpy.random began each in the same state; at train.py:12 in Images.__getitem__");
  EXPECT_THAT(finding.remedies.front().commands.at(2).plain(),
              HasSubstr("    numpy.random.seed(info.seed % 2**32)"));
}

TEST_F(DataTest, StreamsThatDrawFromABufferInTheSameOrderAreNamed) {
  // Of a loader of its own.
  const auto epochs = [&](int32_t number, const std::string& last, const std::string& generator) {
    for (const int32_t epoch : {1, 2}) {
      const auto loader = static_cast<uint64_t>(10 * number + epoch);
      drawn_by_ = generator;
      for (const int32_t worker : {1, 2}) {
        order_ = {"a", "b", epoch == 1 || worker == 1 ? "c" : last};
        reads(1000 * number + 100 * epoch + worker, {100 * worker, 100 * worker + 90}, loader);
      }
      loops("-", "3", std::to_string(number) + "-8-2", loader);
    }
    return found();
  };
  EXPECT_THAT(epochs(1, "d", "12ab"), IsEmpty()) << "in another order";
  EXPECT_THAT(epochs(2, "c", ""), IsEmpty()) << "not drawn";
  const auto findings = epochs(3, "c", "12ab");
  ASSERT_THAT(findings, SizeIs(1));
  EXPECT_EQ(findings.front().code, FindingCode::kEpochsRepeated);
  EXPECT_THAT(findings.front().message.plain(),
              HasSubstr("the random.Random by which they draw from a buffer"));
}

TEST_F(DataTest, NumbersOfOneEpochOrOfOthersAreNotRepeated) {
  // An epoch that draws others, or nothing; a loader whose loops do not learn.
  for (const uint64_t loader : {77, 78, 79, 80}) {
    if (loader != 80) draws(101, loader == 79 ? "bb" : "aa", "numpy.random", loader);
    if (loader != 79) draws(101, "cc", "dataset.rng", loader);
    draws(101, "dd", "random", loader + 100);
    loops("-", "3", "1-8-2", loader);
    loops("-", "-", "2-8-2", loader + 100);
  }
  // Workers that live on.
  draws(301, "aa", "numpy.random", 90);
  loops("-", "3", "3-8-2", 90);
  loops("-", "3", "3-8-2", 90);
  EXPECT_THAT(found(), IsEmpty());
}

TEST_F(DataTest, OfWorkersThatDrawAlikeOneFindingTells) {
  for (const uint64_t loader : {77, 78}) {
    draws(101, "aa", "dataset.rng", loader);
    draws(102, "aa", "dataset.rng", loader);
    loops("-", "3", "1-8-2", loader);
  }
  EXPECT_EQ(only().code, FindingCode::kRandomNumbersRepeated);
}

TEST_F(DataTest, AnEpochWhoseSamplerIsAUsedUpGeneratorIsNamed) {
  finds_no_more("batch_sampler");
  finds_no_more("batch_sampler");
  EXPECT_THAT(only(), Is(FindingCode::kEpochsRepeated, Severity::kWarning));
  EXPECT_EQ(only().message.plain(),
            "trainer 100 began an epoch that has no batches: the batch_sampler of its loader is a "
            "generator (by_length), which was used up before; DataLoader at train.py:30 in main");
}

TEST_F(DataTest, LoopsThatAreLeftAfterTheirFirstBatchAreNamed) {
  leaves(10 * kSecond, 1, 0.2, 1);
  leaves(30 * kSecond, 120, 14, 120);
  EXPECT_THAT(only(), Is(FindingCode::kEpochsRepeated, Severity::kWarning, Confidence::kLikely));
  EXPECT_EQ(only().message.plain(),
            "trainer 100 began 120 loops over a DataLoader, took 120 batches from them, and waited "
            "14.0 s for the workers of each to start; at train.py:31 in real_batch");
}

TEST_F(DataTest, LoopsThatAreLeftNowAndThenOrLaterAreNot) {
  leaves(10 * kSecond, 1, 0.2, 1);
  leaves(90 * kSecond, 120, 14, 120);
  EXPECT_THAT(found(), IsEmpty()) << "between others";
  leaves(91 * kSecond, 120, 70, 1200);
  EXPECT_THAT(found(), IsEmpty()) << "after ten batches";
}

TEST_F(DataTest, WhatWorkersThatLiveOnNeverGetIsNamed) {
  changes("dataset.epoch", "aa");
  keeps(101, {"aa", "bb"});
  keeps(102, {"aa", "cc"});
  changes("dataset.size", "bb");  // which one of them has changed itself
  changes("dataset.epoch", "aa", 78);
  const Finding finding = only();
  EXPECT_THAT(finding, Is(FindingCode::kEpochsRepeated, Severity::kWarning, Confidence::kLikely));
  EXPECT_EQ(finding.processes, std::vector({key_of(101), key_of(102)}));
  EXPECT_EQ(finding.message.plain(),
            "worker 101 and worker 102 never got what the trainer set for a later epoch: "
            "dataset.epoch is still 0 there, and not 1; persistent_workers keeps their copies of "
            "the data set; at train.py:12 in Images.__getitem__ (harmless if no sample "
            "depends on it)");
}

TEST_F(DataTest, WhatAWorkerHearsLaterIsNotKept) {
  changes("dataset.epoch", "aa");
  keeps(101, {"aa", "bb"});
  keeps(101, {"bb"});
  EXPECT_THAT(found(), IsEmpty());
}

TEST_F(DataTest, TensorsThatCameAfterTheirMemoryWasSentAgainAreNamed) {
  sends_tensors(101, {"10 aa", "20 bb"});
  sends_tensors(101, {"30 cc"});
  takes_tensors(100, {"25 0", "35 0", "45 0"}, 101);
  const Finding finding = only();
  EXPECT_THAT(finding, Is(FindingCode::kBatchOverwritten, Severity::kWarning, Confidence::kLikely));
  EXPECT_EQ(finding.processes, std::vector({key_of(101)}));
  EXPECT_THAT(finding, Says("2 of 3 compared had changed before trainer 100"));
}

TEST_F(DataTest, TensorsOfOneMemoryThatAreKeptAreNamed) {
  sends_tensors(101, {"10 aa", "20 bb", "30 cc", "40 dd", "50 ee"});
  takes_tensors(100, {"11 0", "21 1", "31 2", "41 3"}, 101);
  EXPECT_THAT(found(), IsEmpty()) << "a loop has the last ones yet";
  takes_tensors(100, {"51 4"}, 101);
  ASSERT_THAT(found(), SizeIs(1));
}

TEST_F(DataTest, TensorsThatAreSentInTurnOrByOthersAreNot) {
  sends_tensors(101, {"10 aa", "20 bb", "30 cc"});
  takes_tensors(100, {"15 0", "25 1", "35 1"}, 101);
  EXPECT_THAT(found(), IsEmpty());
}

TEST_F(DataTest, TensorsThatWereNotWrittenToMayComeLate) {
  sends_tensors(101, {"10 aa", "20 -", "30 -"});
  takes_tensors(100, {"35 0", "36 0", "37 0"}, 101);
  EXPECT_THAT(found(), IsEmpty());
}

TEST_F(DataTest, OfSeveralTakersOrSendersNothingIsSaid) {
  sends_tensors(101, {"10 aa", "20 bb", "30 cc"});
  takes_tensors(100, {"25 0", "35 0"}, 102);
  EXPECT_THAT(found(), IsEmpty()) << "it is no child of it";
  takes_tensors(103, {"45 0"}, 101);
  EXPECT_THAT(found(), IsEmpty());
}

}  // namespace
}  // namespace dlprobe
