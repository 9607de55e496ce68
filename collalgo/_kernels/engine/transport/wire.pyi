def poll() -> None: ...

class Wire:
    is_cuda_aware: bool
    all_have_left: bool
    @property
    def one_thread(self) -> bool: ...
