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
  EXPECT_EQ(nearest("zzz", {"aaa", "bbb"}), "aaa");
  EXPECT_EQ(nearest("x", {}), "");
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
