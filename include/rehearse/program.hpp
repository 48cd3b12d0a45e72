#pragma once

#include "runtime/worker/program.hpp"
