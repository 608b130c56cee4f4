#include "lib/os/job_rank.h"

#include <gtest/gtest.h>

#include <initializer_list>
#include <string>
#include <string_view>

#include "tests/support/must.h"

namespace dlprobe {
namespace {

std::string environ_of(std::initializer_list<std::string_view> entries) {
  std::string text;
  for (const std::string_view entry : entries)
    text += std::string(entry) + '\0';
  return text;
}

TEST(JobRank, OfTorchrun) {
  const auto rank =
      job_rank_of(environ_of({"HOME=/root", "RANK=5", "LOCAL_RANK=1", "WORLD_SIZE=8",
                              "LOCAL_WORLD_SIZE=4", "MASTER_ADDR=n1", "MASTER_PORT=29500"}));
  ASSERT_TRUE(rank);
  EXPECT_EQ(
      *rank,
      (JobRank{
          .job = "n1:29500", .rank = 5, .world_size = 8, .local_world_size = 4, .source = "RANK"}));
}

TEST(JobRank, WhatTheInnerLauncherHasSetCounts) {
  const auto rank =
      must(job_rank_of(environ_of({"SLURM_PROCID=0", "SLURM_NTASKS=2", "SLURM_JOB_ID=7",
                                   "SLURM_STEP_ID=0", "RANK=3", "WORLD_SIZE=4"})));
  EXPECT_EQ(rank.rank, 3);
  const auto of_slurm = must(job_rank_of(
      environ_of({"SLURM_PROCID=1", "SLURM_NTASKS=2", "SLURM_JOB_ID=7", "SLURM_STEP_ID=0"})));
  EXPECT_EQ(of_slurm.job, "7:0");
  EXPECT_EQ(of_slurm.rank, 1);
}

TEST(JobRank, ABatchScriptOfSlurmIsInNoStep) {
  EXPECT_FALSE(job_rank_of(environ_of({"SLURM_PROCID=0", "SLURM_NTASKS=2", "SLURM_JOB_ID=7"})));
  EXPECT_FALSE(job_rank_of(
      environ_of({"SLURM_PROCID=0", "SLURM_NTASKS=2", "SLURM_JOB_ID=7", "SLURM_STEP_ID=batch"})));
}

TEST(JobRank, OfOpenMpiAndMpich) {
  EXPECT_EQ(job_rank_of(environ_of({"OMPI_COMM_WORLD_RANK=1", "OMPI_COMM_WORLD_SIZE=2"}))->rank, 1);
  EXPECT_EQ(job_rank_of(environ_of({"PMI_RANK=2", "PMI_SIZE=4"}))->world_size, 4);
}

// Lightning's first process, and those that it starts, on the first node.
TEST(JobRank, OfTheFirstNodeByTheLocalRank) {
  EXPECT_EQ(job_rank_of(environ_of({"LOCAL_RANK=1", "NODE_RANK=0", "WORLD_SIZE=2"}))->rank, 1);
  EXPECT_FALSE(job_rank_of(environ_of({"LOCAL_RANK=1", "NODE_RANK=1", "WORLD_SIZE=4"})));
  EXPECT_FALSE(job_rank_of(environ_of({"LOCAL_RANK=1"})));
}

TEST(JobRank, WhatDoesNotFitIsNone) {
  EXPECT_FALSE(job_rank_of(environ_of({})));
  EXPECT_FALSE(job_rank_of(environ_of({"RANK=first", "WORLD_SIZE=2"})));
  EXPECT_FALSE(job_rank_of(environ_of({"RANK=-1", "WORLD_SIZE=2"})));
  EXPECT_FALSE(job_rank_of(environ_of({"RANK=2", "WORLD_SIZE=2"})));
  EXPECT_FALSE(job_rank_of(environ_of({"RANKING=2", "NOT=RANK=1"})));
  EXPECT_FALSE(job_rank_of(environ_of({"RANK=1", "WORLD_SIZE=2147483647"})));
  EXPECT_FALSE(job_rank_of(environ_of({"RANK=2147483647", "WORLD_SIZE=8"})));
}

TEST(JobRank, NoOtherVariableIsAskedFor) {
  EXPECT_TRUE(tells_job_rank("RANK=1"));
  EXPECT_TRUE(tells_job_rank("MASTER_ADDR=n1"));
  EXPECT_FALSE(tells_job_rank("AWS_SECRET_ACCESS_KEY=x"));
  EXPECT_FALSE(tells_job_rank("=x"));
  EXPECT_FALSE(tells_job_rank(""));
}

}  // namespace
}  // namespace dlprobe
