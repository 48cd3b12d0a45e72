#include "harness/text.hpp"

#include <gtest/gtest.h>

namespace rehearse::harness {
namespace {

TEST(Text, EditDistanceCountsASwapAsOne) {
  EXPECT_EQ(edit_distance("hosts", "hosts"), 0u);
  EXPECT_EQ(edit_distance("hsots", "hosts"), 1u);
  EXPECT_EQ(edit_distance("", "abc"), 3u);
  EXPECT_EQ(edit_distance("kitten", "sitting"), 3u);
}

TEST(Text, NearestTakesTheFirstOfEquals) {
  EXPECT_EQ(nearest("stepp", {"time", "step", "event"}), "step");
  EXPECT_EQ(nearest("cat", {"bat", "car"}), "bat");
  EXPECT_EQ(nearest("x", {}), "");
}

// A guess that shares nothing with the word is worse than none.
TEST(Text, NothingIsNearAWordOfItsOwn) {
  EXPECT_EQ(nearest("zzz", {"aaa", "bbb"}), "");
  EXPECT_EQ(nearest("gpu", {"sim", "memory", "processes"}), "");
  EXPECT_EQ(nearest("simm", {"sim", "memory", "processes"}), "sim");
  EXPECT_EQ(nearest("gradient", {"grad", "start"}), "grad");
  EXPECT_EQ(instead_of("simm", {"sim"}, '`'), ", did you mean `sim`? Expected \"sim\"");
  EXPECT_EQ(instead_of("gpu", {"sim", "memory"}), ", expected \"sim\" or \"memory\"");
  EXPECT_EQ(instead_of("gpu", {}), ", expected none");
}

TEST(Text, ListsReadAsSentences) {
  EXPECT_EQ(one_of({"a"}), "\"a\"");
  EXPECT_EQ(one_of({"a", "b", "c"}), "\"a\", \"b\" or \"c\"");
}

// Foreign text cannot move the cursor, break the line, or fill the screen.
TEST(Text, QuotedIsOneHarmlessLine) {
  EXPECT_EQ(in_quotes("a\n\x1b[31m"), "\"a\\x0a\\x1b[31m\"");
  EXPECT_LT(in_quotes(std::string(10'000, 'x')).size(), 100u);
  EXPECT_EQ(in_quotes(std::string(79, 'x') + "ü"), '"' + std::string(79, 'x') + "…\"");
}

}  // namespace
}  // namespace rehearse::harness
