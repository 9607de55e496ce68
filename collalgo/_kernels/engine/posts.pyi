from collalgo._kernels.engine.rows import Rows

class Posts(Rows):
    offers_end: int
