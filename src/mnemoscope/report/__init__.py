"""Pages, tables and images from documents."""

from mnemoscope.report.export import write_data as write_data
from mnemoscope.report.export import write_images as write_images
from mnemoscope.report.page import write as write
