#include "reports/report_file.hpp"

#include <gtest/gtest.h>
#include <sys/resource.h>
#include <unistd.h>

#include <csignal>
#include <filesystem>
#include <fstream>
#include <iterator>

namespace rehearse::reports {
namespace {

namespace fs = std::filesystem;

class ReportFile : public testing::Test {
 protected:
  ReportFile() {
    folder_ = testing::TempDir() + "report_file_" + std::to_string(::getpid());
    fs::create_directories(folder_);
  }
  ~ReportFile() override { fs::remove_all(folder_); }

  std::string content() const {
    std::ifstream stream(folder_ + "/r.json");
    return {std::istreambuf_iterator<char>(stream), {}};
  }
  std::size_t files() const {
    return static_cast<std::size_t>(
        std::distance(fs::directory_iterator(folder_), fs::directory_iterator()));
  }

  std::string folder_;
};

TEST_F(ReportFile, ReplacesTheOldOneAndLeavesNothingElse) {
  EXPECT_TRUE(write_report(folder_ + "/r.json", "old").ok());
  EXPECT_TRUE(write_report(folder_ + "/r.json", "new").ok());
  EXPECT_EQ(content(), "new");
  EXPECT_EQ(files(), 1u);
}

// A write that fails half-way (here at a limit on file size) keeps the old report whole.
TEST_F(ReportFile, AFailedWriteKeepsTheOldReport) {
  ASSERT_TRUE(write_report(folder_ + "/r.json", "old").ok());
  rlimit before{};
  ::getrlimit(RLIMIT_FSIZE, &before);
  const rlimit small{1000, before.rlim_max};
  const auto handler = std::signal(SIGXFSZ, SIG_IGN);
  ::setrlimit(RLIMIT_FSIZE, &small);
  const Status written = write_report(folder_ + "/r.json", std::string(5000, 'x'));
  ::setrlimit(RLIMIT_FSIZE, &before);
  std::signal(SIGXFSZ, handler);
  EXPECT_EQ(written.code(), Code::disk_error);
  EXPECT_EQ(content(), "old");
  EXPECT_EQ(files(), 1u);
}

TEST_F(ReportFile, CheckingLeavesNothingBehind) {
  EXPECT_TRUE(check_writable(folder_ + "/r.json").ok());
  EXPECT_EQ(files(), 0u);
  EXPECT_EQ(check_writable(folder_ + "/no/r.json").code(), Code::disk_error);
  EXPECT_NE(check_writable(folder_).failure().message.find("Is a directory"), std::string::npos);
}

}  // namespace
}  // namespace rehearse::reports
