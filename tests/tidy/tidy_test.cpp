// The rules of the house that no other tool checks, over the project's own files.
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>

#include "tests/tidy/rules.hpp"

namespace rehearse::tidy {
namespace {

// Reads every source and page of the checkout, and shows each broken rule as a line of its own.
TEST(Tidy, TheProjectKeepsItsRules) {
  const Tree tree = read_tree(std::filesystem::current_path());
  for (const Finding& finding : check(tree)) {
    ADD_FAILURE() << finding.path << ":" << finding.line << ": " << finding.rule << ": "
                  << finding.message;
  }
}

// A rule over no files would always hold: the tree that was read holds sources and pages of ours.
TEST(Tidy, TheProjectIsRead) {
  const Tree tree = read_tree(std::filesystem::current_path());
  const auto has = [](const auto& files, const std::string& path) {
    return std::ranges::any_of(files, [&](const auto& file) { return file.path == path; });
  };
  EXPECT_TRUE(has(tree.sources, "tests/tidy/tidy_test.cpp"));
  EXPECT_TRUE(has(tree.sources, "runtime/base/error.hpp"));
  EXPECT_TRUE(has(tree.pages, "rehearse"));
  EXPECT_TRUE(has(tree.pages, "tests/README.md"));
}

}  // namespace
}  // namespace rehearse::tidy
