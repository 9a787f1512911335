"""An example may take its time: the machine that runs the tests does other things as well."""

from hypothesis import settings

settings.register_profile("procession", deadline=None)
settings.load_profile("procession")
