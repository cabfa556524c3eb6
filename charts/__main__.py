"""Write what is made of the chart's values: `make chart`."""

from charts.readme import README, readme

README.write_text(readme())
