// framework/base/environment.inl - every environment variable that the project reads
//
// BT_ENVIRONMENT(enumerator, name, allowed values, meaning, reader). `ci/lint.sh environment`
// rejects any other way to read a variable, and a BT_ variable in a script without a row here.
// Kernels read no variables: those that select kernels are read once, when the device is opened.
BT_ENVIRONMENT(ROOT, "BT_ROOT", "a folder", "folder that contains suites/ and data/",
               "bt-bench; set by ./bt-bench")
BT_ENVIRONMENT(GEMM, "BT_GEMM", "auto, own, cublaslt, cublaslt-best, sm80",
               "kernels of matrix products that the CUDA backend may select",
               "libbt_cuda, when opened")
BT_ENVIRONMENT(GEMM_TUNE, "BT_GEMM_TUNE", "0, 1",
               "1: measure the plans of a matrix product and keep the fastest", "libblutrain")
BT_ENVIRONMENT(CACHE_DIR, "BT_CACHE_DIR", "a folder",
               "folder of measured plans; default $XDG_CACHE_HOME/blutrain", "libblutrain")
BT_ENVIRONMENT(BENCH, "BT_BENCH", "a program",
               "the built bt-bench that is used instead of ./bt-bench", "ci/gpu-gate.sh")
BT_ENVIRONMENT(CMAKE_ARGS, "BT_CMAKE_ARGS", "options", "options added to every CMake configuration",
               "ci/test.sh")
BT_ENVIRONMENT(FUZZ_SECONDS, "BT_FUZZ_SECONDS", "a number", "time for all fuzz targets together",
               "ci/test.sh")
BT_ENVIRONMENT(FRESH_NAMESPACE, "BT_FRESH_NAMESPACE", "set by the script itself",
               "the script runs in its own mount namespace", "ci/fresh.sh")
BT_ENVIRONMENT(CUDA_VISIBLE_DEVICES, "CUDA_VISIBLE_DEVICES", "see the CUDA documentation",
               "the GPUs to use", "bt-bench, CUDA")
BT_ENVIRONMENT(
    OPENBLAS_CORETYPE, "OPENBLAS_CORETYPE", "see the OpenBLAS documentation",
    "processor whose kernels OpenBLAS uses; set for workers if OpenBLAS would select slow ones",
    "bt-bench, OpenBLAS")
BT_ENVIRONMENT(OMP_NUM_THREADS, "OMP_NUM_THREADS", "a number", "threads of CPU kernels",
               "OpenMP runtime")
BT_ENVIRONMENT(OMP_THREAD_LIMIT, "OMP_THREAD_LIMIT", "a number",
               "maximum number of threads of CPU kernels; OpenBLAS gets the resulting number",
               "OpenMP runtime")
BT_ENVIRONMENT(OMP_DYNAMIC, "OMP_DYNAMIC", "false",
               "varying number of OpenMP threads; set to false, with a note", "OpenMP runtime")
BT_ENVIRONMENT(NCCL_NVLS_ENABLE, "NCCL_NVLS_ENABLE", "0",
               "NVLink multicast of NCCL; the launcher sets 0, and ranks on GPUs accept only 0",
               "bt-bench, NCCL")
BT_ENVIRONMENT(CUDA_MODULE_LOADING, "CUDA_MODULE_LOADING", "EAGER",
               "time at which kernels are loaded; ranks on GPUs set EAGER if it is not set; with "
               "LAZY they use NCCL",
               "bt-bench, CUDA")
BT_ENVIRONMENT(RANK, "RANK", "a number", "rank of this process in train.mesh", "torchrun")
BT_ENVIRONMENT(WORLD_SIZE, "WORLD_SIZE", "a number", "number of ranks", "torchrun")
BT_ENVIRONMENT(LOCAL_RANK, "LOCAL_RANK", "a number", "rank of this process on its host", "torchrun")
BT_ENVIRONMENT(LOCAL_WORLD_SIZE, "LOCAL_WORLD_SIZE", "a number", "number of ranks on this host",
               "torchrun")
BT_ENVIRONMENT(TORCHELASTIC_RUN_ID, "TORCHELASTIC_RUN_ID", "a name",
               "identifies the start of ranks", "torchrun")
BT_ENVIRONMENT(MASTER_ADDR, "MASTER_ADDR", "a host", "host on which rank 0 listens",
               "bt-bench, torchrun")
BT_ENVIRONMENT(MASTER_PORT, "MASTER_PORT", "1 to 65534",
               "port of rank 0; under torchrun, which uses this port itself, the next one",
               "bt-bench, torchrun")
BT_ENVIRONMENT(SLURM_PROCID, "SLURM_PROCID", "a number", "rank of this process", "srun")
BT_ENVIRONMENT(SLURM_STEP_NUM_TASKS, "SLURM_STEP_NUM_TASKS", "a number", "number of ranks", "srun")
BT_ENVIRONMENT(SLURM_LOCALID, "SLURM_LOCALID", "a number", "rank of this process on its host",
               "srun")
BT_ENVIRONMENT(SLURM_JOB_ID, "SLURM_JOB_ID", "a number", "identifies the start of ranks", "srun")
BT_ENVIRONMENT(SLURM_STEP_ID, "SLURM_STEP_ID", "a number",
               "identifies the start of ranks within its job", "srun")
BT_ENVIRONMENT(SLURM_STEP_NODELIST, "SLURM_STEP_NODELIST", "hosts",
               "hosts of the ranks; the first has rank 0", "srun")
BT_ENVIRONMENT(OMPI_COMM_WORLD_RANK, "OMPI_COMM_WORLD_RANK", "a number", "rank of this process",
               "mpirun of Open MPI")
BT_ENVIRONMENT(OMPI_COMM_WORLD_SIZE, "OMPI_COMM_WORLD_SIZE", "a number", "number of ranks",
               "mpirun of Open MPI")
BT_ENVIRONMENT(OMPI_COMM_WORLD_LOCAL_RANK, "OMPI_COMM_WORLD_LOCAL_RANK", "a number",
               "rank of this process on its host", "mpirun of Open MPI")
BT_ENVIRONMENT(OMPI_COMM_WORLD_LOCAL_SIZE, "OMPI_COMM_WORLD_LOCAL_SIZE", "a number",
               "number of ranks on this host", "mpirun of Open MPI")
BT_ENVIRONMENT(PMIX_NAMESPACE, "PMIX_NAMESPACE", "a name", "identifies the start of ranks",
               "mpirun of Open MPI")
BT_ENVIRONMENT(NCCL_SOCKET_IFNAME, "NCCL_SOCKET_IFNAME", "see the NCCL documentation",
               "network interfaces that ranks use; checked before they connect", "bt-bench, NCCL")
BT_ENVIRONMENT(HOME, "HOME", "a folder",
               "home folder; ~/.cache is used if XDG_CACHE_HOME is not set", "libblutrain")
BT_ENVIRONMENT(XDG_CACHE_HOME, "XDG_CACHE_HOME", "a folder", "folder of caches",
               "libblutrain, ci/lint.sh")
BT_ENVIRONMENT(TMPDIR, "TMPDIR", "a folder", "folder of device locks; default /tmp", "bt-bench")
BT_ENVIRONMENT(PATH, "PATH", "folders", "folders that are searched for programs", "bt-bench doctor")
BT_ENVIRONMENT(NO_COLOR, "NO_COLOR", "anything", "no colour and no bars on a terminal", "bt-bench")
BT_ENVIRONMENT(COLUMNS, "COLUMNS", "an integer",
               "width to which tables are fitted; default: that of the terminal, in a pipe any",
               "bt-bench")
BT_ENVIRONMENT(TERM, "TERM", "a terminal type", "dumb: lines are never overwritten", "bt-bench")
