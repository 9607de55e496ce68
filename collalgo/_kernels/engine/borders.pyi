from collalgo._kernels.engine.template_tables import TemplateTables

class Borders(TemplateTables):
    scratch_bytes: int
