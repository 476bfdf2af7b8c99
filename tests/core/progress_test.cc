#include "core/progress.h"

#include <gtest/gtest.h>

#include <thread>
#include <vector>

#include "support/errors.h"

namespace sparkx {
namespace {

TEST(Progress, ReportsEverythingOnceAllIsDone) {
  std::vector<std::uint64_t> reports;
  Progress progress(
      [&](std::uint64_t done, std::uint64_t total) {
        EXPECT_EQ(total, 400'000u);
        reports.push_back(done);  // safe: never two threads at once
        return true;
      },
      400'000);
  {
    std::vector<std::jthread> threads;
    for (int t = 0; t < 4; ++t) {
      threads.emplace_back([&] {
        for (int i = 0; i < 1000; ++i) progress.add(100);
      });
    }
  }
  progress.check();
  ASSERT_FALSE(reports.empty());
  EXPECT_TRUE(std::is_sorted(reports.begin(), reports.end()));
  EXPECT_EQ(reports.back(), 400'000u);
}

TEST(Progress, ACallbackThatReturnsFalseCancels) {
  int calls = 0;
  Progress progress([&](std::uint64_t done, std::uint64_t) { return ++calls, done < 20; }, 100);
  progress.add(10);
  EXPECT_FALSE(progress.cancelled());
  progress.add(10);
  EXPECT_TRUE(progress.cancelled());
  progress.add(10);
  EXPECT_EQ(calls, 2) << "called again after it asked to stop";
  EXPECT_EQ(testing::error_of([&] { progress.check(); }), "cancelled: cancelled");
}

TEST(Progress, WorksWithoutACallback) {
  Progress progress({}, 10);
  progress.add(10);
  EXPECT_NO_THROW(progress.check());
}

}  // namespace
}  // namespace sparkx
