#include "harness/schema.hpp"

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include "harness/parse.hpp"
#include "tests/harness/corpus.hpp"
#include "tests/harness/sample_catalogue.hpp"
#include "tests/harness/schema_validator.hpp"

namespace rehearse::harness {
namespace {

const nlohmann::ordered_json& schema() {
  static const auto made = scenario_schema(sample_catalogue());
  return made;
}

std::string refusal_of(const std::string& text) {
  Problems problems;
  const Value document = parse_toml(text, "t.toml", problems);
  return problems.empty() ? refusal(to_json(document), schema()) : "no TOML";
}

// Schema and parser agree on the good corpus.
TEST(Schema, AcceptsTheGoodCorpus) {
  for (const CorpusFile& file : corpus("good")) EXPECT_EQ(refusal_of(file.text), "") << file.name;
}

// Schema and parser agree on the bad corpus, but for what each file says is beyond a schema.
TEST(Schema, RefusesTheBadCorpus) {
  for (const CorpusFile& file : corpus("bad")) {
    const std::string why = refusal_of(file.text);
    if (file.schema == "text") {
      EXPECT_EQ(why, "no TOML") << file.name;
    } else if (file.schema == "accepts") {
      EXPECT_EQ(why, "") << file.name;
    } else {
      EXPECT_NE(why, "") << file.name;
    }
  }
}

// What the parser accepts, the schema accepts: an editor never shows an error that is none. Lines
// of good files are left out and mixed to get at combinations that nobody wrote down.
RC_GTEST_PROP(SchemaProperty, AcceptsWhatTheParserAccepts, ()) {
  static const auto good = corpus("good");
  std::string text;
  std::string line;
  for (const char letter : (*rc::gen::elementOf(good)).text) {
    line += letter;
    if (letter != '\n') continue;
    if (*rc::gen::inRange(0, 8) != 0) text += line;
    line.clear();
  }
  const Parsed parsed = parse_scenario(text, "t.toml", {}, sample_catalogue());
  if (parsed.scenario) RC_ASSERT(refusal_of(text) == "");
}

// The validator itself can refuse: each keyword once.
TEST(SchemaValidator, KnowsItsKeywords) {
  using Json = nlohmann::ordered_json;
  const auto refuses = [](const char* value, const char* by) {
    return !refusal(Json::parse(value), Json::parse(by)).empty();
  };
  EXPECT_TRUE(refuses("1", R"({"type": "string"})"));
  EXPECT_TRUE(refuses("1", R"({"enum": [2, 3]})"));
  EXPECT_TRUE(refuses("1", R"({"minimum": 2})"));
  EXPECT_TRUE(refuses("[1, 1]", R"({"uniqueItems": true})"));
  EXPECT_TRUE(refuses("[]", R"({"minItems": 1})"));
  EXPECT_TRUE(refuses("\"a\"", R"({"pattern": "^b"})"));
  EXPECT_TRUE(refuses("{}", R"({"required": ["a"]})"));
  EXPECT_TRUE(refuses("{\"a\": 1}", R"({"additionalProperties": false})"));
  EXPECT_TRUE(refuses("1", R"({"oneOf": [{"type": "integer"}, {"type": "number"}]})"));
  EXPECT_TRUE(refuses("{\"a\": 1}", R"({"if": {"required": ["a"]}, "then": {"required": ["b"]}})"));
  EXPECT_FALSE(refuses("{\"a\": 1}", R"({"properties": {"a": {"const": 1}}})"));
  EXPECT_THROW(refuses("1", R"({"multipleOf": 2})"), std::logic_error);
}

}  // namespace
}  // namespace rehearse::harness
