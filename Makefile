# Short names for the scripts; each does its work without make.
.PHONY: help run test format asan tsan bench fuzz mutation test-real install

help: ## this list
	@sed -n 's/^\([a-z-]*\):.*## \(.*\)/make \1\t\2/p' Makefile | expand -t 24

run: ## install what is missing, build, ask the built-in model a question
	@scripts/run

test: ## install what is missing, build, run the tests (WITH=oracle adds the checks against other implementations)
	@scripts/test $(if $(WITH),--with $(WITH))

format: ## format the C++ sources
	@scripts/format

asan: ## tests under AddressSanitizer and UndefinedBehaviorSanitizer
	@scripts/test --preset asan

tsan: ## tests under ThreadSanitizer
	@scripts/test --preset tsan

bench: ## the benchmarks of bench/
	@scripts/bench

fuzz: ## fuzz every parser for a minute each (SECONDS=60)
	@scripts/fuzz $(SECONDS)

mutation: ## every known mistake must be noticed by its test
	@tests/mutations/run

test-real: ## check a real checkpoint: SPARKX_MODEL=DIR make test-real
	@tests/real/check_real_model.sh "$(SPARKX_MODEL)"

install: ## install program and library to PREFIX (default /usr/local)
	@scripts/build release sparkx_cli
	@cmake --install build/release --prefix $(or $(PREFIX),/usr/local)
